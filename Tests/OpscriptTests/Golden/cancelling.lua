-- Cancelling: a flag that bodies look at; an operation that has not started never runs its body.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local function state(op) return op.isReady, op.isExecuting, op.isFinished, op.isCancelled end

-- Before it is in a queue.
local early = Operation.new(function() print "must not run" end)
early:cancel()
print("outside a queue", state(early))
queue:addOperation(early)
early:waitUntilFinished()
print("finished", state(early))
print("no outcome", early.result, early.results, early.error)

-- In a suspended queue, with a dependency that will not end.
queue.isSuspended = true
local never = Operation.new(function() end)
local held = Operation.new(function() print "must not run" end)
held:addDependency(never)
queue:addOperation(held)
held:cancel()
print("suspended", state(held))
print("counted", queue.operationCount, #held.dependencies)
queue.isSuspended = false
held:waitUntilFinished()
print("resumed", state(held))

-- While it executes.
local looking = queue:addOperation(function(op)
  while not op.isCancelled do end
  return "stopped"
end)
while not looking.isExecuting do end
looking:cancel()
looking:cancel()
looking:waitUntilFinished()
print("it looked", looking.isCancelled, looking.result)

-- After the end it does nothing.
local done = queue:addOperation(function() return 1 end)
done:waitUntilFinished()
done:cancel()
print("too late", done.isCancelled, done.result)

-- All of a queue, and what depends on them elsewhere.
queue.isSuspended = true
for _ = 1, 5 do
  local op = Operation.new(function() print "must not run" end)
  queue:addOperation(op)
end
local dependent = Operation.new(function() return "released" end)
for _, op in ipairs(queue.operations) do dependent:addDependency(op) end
OperationQueue.new():addOperation(dependent)
queue:cancelAllOperations()
queue.isSuspended = false
queue:waitUntilAllOperationsAreFinished()
dependent:waitUntilFinished()
print("all", dependent.result, queue.operationCount)

-- From another operation.
local victim = Operation.new(function() print "must not run" end)
local killer = Operation.new(function() victim:cancel() end)
victim:addDependency(killer)
queue:addOperations({ victim, killer }, true)
print("by another", victim.isCancelled, victim.isFinished, killer.isCancelled)
