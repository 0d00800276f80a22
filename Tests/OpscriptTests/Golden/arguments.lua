-- A body's arguments and surroundings.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "q"

local op = Operation.new {
  name = "named",
  arguments = { 1, false, "three" },
  queuePriority = "high",
  main = function(op, ...)
    return op.name, op == Operation.current, op.isExecuting, op.isFinished, OperationQueue.current.name, select("#", ...), ...
  end,
}
print(op.name, op.queuePriority, op.isReady, op.isExecuting, op.isFinished, op.isCancelled, op.isAsynchronous, op.result, op.error)
queue:addOperation(op)
op:waitUntilFinished()
print(table.unpack(op.results, 1, op.results.n))
print(Operation.current, OperationQueue.current == OperationQueue.main)

-- An operation keeps its identity in every state.
local carrier = queue:addOperation(function(_, other, where) return other, other == op, where == queue, { [other] = 1 }, other.name end, op, queue)
carrier:waitUntilFinished()
print(carrier.result == op, carrier.results[2], carrier.results[3], carrier.results[4][op], carrier.results[5])

-- addOperation takes a function, or an operation made from a function.
print(queue:addOperation(function(op, a, b) return a .. b end, "x", "y"):waitUntilFinished())
local plain = Operation.new(function(_, ...) return select("#", ...) end, nil, nil, nil)
queue:addOperation(plain)
plain:waitUntilFinished()
print(plain.result)

-- Started by hand, a body runs at once in this state, without a copy.
local count = 0
local byHand = Operation.new(function(op) count = count + 1; return op.isExecuting end)
byHand:start()
print(byHand.isFinished, count, byHand.result)
