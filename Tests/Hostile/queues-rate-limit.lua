-- expect: timeout
local queue = opscript.OperationQueue.new { rateLimit = { count = 1, seconds = 1e300 } }
for i = 1, 10 do queue:addOperation(function() end) end
queue:waitUntilAllOperationsAreFinished()
