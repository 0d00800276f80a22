-- A queue starts its ready operations by priority, and first in, first out within a priority. An unready operation waits at any priority.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { maxConcurrentOperationCount = 1, isSuspended = true }

local function add(name, priority)
  local op = Operation.new { name = name, queuePriority = priority, main = function(op) print(op.name, op.queuePriority) end }
  queue:addOperation(op)
  return op
end

add("normal 1")
add("low", "low")
add("very high", "veryHigh")
add("normal 2", "normal")
add("very low", "veryLow")
add("high", "high")
add("by number", 4)
add("between, towards normal", 7)
local raised = add("raised while waiting", "veryLow")
raised.queuePriority = "veryHigh"
local held = Operation.new { name = "held by the last", queuePriority = "veryHigh", main = function(op) print(op.name) end }
held:addDependency(add("last", "veryLow"))
queue:addOperation(held)

print("waiting", queue.operationCount)
queue.isSuspended = false
queue:waitUntilAllOperationsAreFinished()
print("waiting", queue.operationCount)
