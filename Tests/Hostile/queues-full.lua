-- expect: timeout
local queue = opscript.OperationQueue.new { maxPendingOperationCount = 1, isSuspended = true }
while true do pcall(queue.addOperation, queue, function() end) end
