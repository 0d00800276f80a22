-- Operations of the main queue run here, in the order of their dependencies, on the variables themselves.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue, main = OperationQueue.new(), OperationQueue.main

local log = {}
local file = io.tmpfile() -- could not be sent to a worker
local work = Operation.new(function() return "work", OperationQueue.current == queue, OperationQueue.main == OperationQueue.current end)
local show = Operation.new(function(op)
  log[#log + 1] = work.result
  file:write(work.result)
  return Operation.current == op, OperationQueue.current == main, log
end)
show:addDependency(work)
main:addOperation(show)
print("not yet", show.isFinished, #log)
queue:addOperation(work)
show:waitUntilFinished()
print("here", #log, log[1], file:seek("set"), file:read "a")
print("current", show.results[1], show.results[2], work.results[2], work.results[3])
print("one main queue", main == OperationQueue.main, main.maxConcurrentOperationCount)

-- A function that a worker adds to the main queue is sent here.
local here = 0
local setHere = Operation.new(function() here = here + 1 end)
queue:addOperation(function()
  OperationQueue.main:addOperation(setHere)
  setHere:waitUntilFinished()
  return setHere.isFinished
end):waitUntilFinished()
print("by reference", here)

-- Priorities, one operation at a time, errors, cancelling.
local order = {}
main.isSuspended = true
for i, priority in ipairs { "low", "normal", "veryHigh" } do
  local op = Operation.new { queuePriority = priority, main = function() order[#order + 1] = priority end }
  main:addOperation(op)
end
local failing = Operation.new(function() error("here", 0) end)
main:addOperation(failing)
local cancelled = Operation.new(function() print "must not run" end)
main:addOperation(cancelled)
cancelled:cancel()
main.isSuspended = false
main:waitUntilAllOperationsAreFinished()
print(table.concat(order, " "), failing.error.message, cancelled.isFinished, main.operationCount)

-- An operation that is added last runs after the script has returned.
main:addOperation(function() print "and here" end)
print "the script has returned"
