#!/usr/bin/env opscript
-- Observes changes of operations and queues, and the values that an operation stores in itself.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local queue = OperationQueue.new { name = "copies", isSuspended = true }
local token = queue:observe("isSuspended", { "initial", "new" }, function(queue, change)
  print("suspended", change.new)
end)
queue.isSuspended = false
opscript.sleep(0)                                            -- observers are called while this state sleeps or waits
token:invalidate()
queue.isSuspended = true                                     -- no observer is called any more
queue.isSuspended = false

local copy = Operation.new(function(op)
  for percent = 50, 100, 50 do op.percent = percent end      -- any other name is the operation's own storage
end)
copy:observe("isExecuting", { "new" }, function(op, change)
  print(change.new and "begins" or "ends")
end)
copy:observe("percent", { "old", "new" }, function(op, change)
  print((change.old or 0) .. " % → " .. change.new .. " %")
end)
queue:addOperation(copy)
queue:waitUntilAllOperationsAreFinished()
