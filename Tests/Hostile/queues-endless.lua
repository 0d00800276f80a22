-- expect: error: the limit of
while true do opscript.OperationQueue.new() end
