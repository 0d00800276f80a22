-- expect: error: the limit of
local q = opscript.OperationQueue.new() while true do q:addOperation(function() end):waitUntilFinished() end
