-- expect: error: unfinished operations
local q = opscript.OperationQueue.new() q.isSuspended = true for i = 1, 1e6 do q:addOperation(function() end) end
