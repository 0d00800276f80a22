-- An operation starts after its dependencies, whichever queues they are in.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local one, other = OperationQueue.new "one", OperationQueue.new { name = "other", maxConcurrentOperationCount = 1 }

-- A diamond.
local top = Operation.new(function() return 1 end)
local left = Operation.new(function() return top.result + 10 end)
local right = Operation.new(function() return top.result + 100 end)
local bottom = Operation.new(function() return left.result + right.result end)
left:addDependency(top)
right:addDependency(top)
bottom:addDependency(left)
bottom:addDependency(right)
print("ready", top.isReady, left.isReady, bottom.isReady)
one:addOperations({ bottom, right, left }, false)
print("held", bottom.isReady, one.operationCount)
other:addOperation(top)
bottom:waitUntilFinished()
print("diamond", bottom.result)
print("listed when finished", #bottom.dependencies, bottom.dependencies[1] == left, bottom.dependencies[2] == right)

-- A dependency that was added twice counts once. Removing the last unfinished one makes the operation ready.
local never = Operation.new(function() end)
local free = Operation.new(function() return "free" end)
free:addDependency(never)
free:addDependency(never)
print("once", #free.dependencies)
one:addOperation(free)
free:removeDependency(never)
free:waitUntilFinished()
print("removed", free.result, #free.dependencies)

-- A dependency releases its dependents however it ended.
local failed = Operation.new(function() error "no" end)
local cancelled = Operation.new(function() end)
cancelled:cancel()
local after = Operation.new(function() return failed.error.message, cancelled.isCancelled end)
after:addDependency(failed)
after:addDependency(cancelled)
one:addOperations({ failed, cancelled, after }, false)
after:waitUntilFinished()
print("any end", after.results[1], after.results[2])

-- A chain, added in the wrong order.
local chain = {}
for i = 1, 1000 do
  local before = chain[i - 1]
  chain[i] = Operation.new(function() return before and before.result + 1 or 1 end)
  if before then chain[i]:addDependency(before) end
end
for i = 1000, 1, -1 do (i % 2 == 0 and one or other):addOperation(chain[i]) end
chain[1000]:waitUntilFinished()
print("chain", chain[1000].result)
