-- Suspension, the maximum, and the properties of queues.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local queue = OperationQueue.new "files"
print(queue.name, queue.maxConcurrentOperationCount, OperationQueue.defaultMaxConcurrentOperationCount, queue.isSuspended, queue.operationCount)
queue.maxConcurrentOperationCount = 2
queue.isSuspended = true
queue.name = "renamed"
print(queue.name, queue.maxConcurrentOperationCount, queue.isSuspended)

-- A suspended queue starts nothing.
local first = queue:addOperation(function(_, ...) return ... end, "with", "arguments")
local second = Operation.new(function() return "second" end)
print("returned", queue:addOperation(second) == second)
print("in order", #queue.operations, queue.operations[1] == first, queue.operations[2] == second)
print("time ran out", second:waitUntilFinished(0.01), second.isReady, second.isExecuting, second.isFinished)
queue.isSuspended = false
print("waited", second:waitUntilFinished(), second.isExecuting, second.isFinished, second.result)
queue:waitUntilAllOperationsAreFinished()
print("done", first.results.n, first.results[1], first.results[2], #queue.operations)

-- addOperations can wait.
local list = {}
for i = 1, 10 do list[i] = Operation.new(function(_, n) return n * n end, i) end
queue:addOperations(list, true)
local sum = 0
for _, op in ipairs(list) do sum = sum + op.result end
print("sum", sum)

-- A maximum of 0 runs nothing.
local stopped = OperationQueue.new { maxConcurrentOperationCount = 0 }
local op = stopped:addOperation(function() return "at last" end)
print("stopped", op:waitUntilFinished(0.01))
stopped.maxConcurrentOperationCount = -1
op:waitUntilFinished()
print(op.result)

-- With a maximum of 1 no two bodies run at the same time, so the file is not corrupted.
local name = os.tmpname()
local serial = OperationQueue.new { maxConcurrentOperationCount = 1 }
for i = 1, 200 do
  serial:addOperation(function()
    local file = assert(io.open(name))
    local n = file:read "n" or 0
    file:close()
    file = assert(io.open(name, "w"))
    file:write(n + 1)
    file:close()
  end)
end
serial:waitUntilAllOperationsAreFinished()
print("serial", io.lines(name)())
os.remove(name)
