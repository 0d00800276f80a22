-- expect: error: the limit of|timeout
local q = opscript.OperationQueue.new() while true do q:addOperation(function() end):waitUntilFinished() end
