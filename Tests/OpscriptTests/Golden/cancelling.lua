-- Cancelling sets a flag that bodies check. An operation that has not started never runs its body.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local function state(op) return op.isReady, op.isExecuting, op.isFinished, op.isCancelled end

-- Cancel before adding to a queue.
local early = Operation.new(function() print "must not run" end)
early:cancel()
print("outside a queue", state(early))
queue:addOperation(early)
early:waitUntilFinished()
print("finished", state(early))
print("no outcome", early.result, early.results, early.error)

-- Cancel in a suspended queue, with a dependency that will not end.
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

-- Cancel while executing.
local looking = queue:addOperation(function(op)
  while not op.isCancelled do end
  return "stopped"
end)
while not looking.isExecuting do end
looking:cancel()
looking:cancel()
looking:waitUntilFinished()
print("it looked", looking.isCancelled, looking.result)

-- Cancelling after the end does nothing.
local done = queue:addOperation(function() return 1 end)
done:waitUntilFinished()
done:cancel()
print("too late", done.isCancelled, done.result)

-- Cancel all operations of a queue. Dependents in another queue are released.
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

-- Cancel from another operation.
local victim = Operation.new(function() print "must not run" end)
local killer = Operation.new(function() victim:cancel() end)
victim:addDependency(killer)
queue:addOperations({ victim, killer }, true)
print("by another", victim.isCancelled, victim.isFinished, killer.isCancelled)
