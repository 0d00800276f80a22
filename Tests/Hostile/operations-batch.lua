-- expect: error: unfinished operations
local q, t = opscript.OperationQueue.new(), {} for i = 1, 200 do t[i] = opscript.Operation.new(function() end) end q:addOperations(t)
