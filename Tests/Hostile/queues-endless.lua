-- expect: error: the limit of|timeout
while true do opscript.OperationQueue.new() end
