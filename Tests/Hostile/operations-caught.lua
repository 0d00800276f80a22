-- expect: timeout
local q = opscript.OperationQueue.new() while true do pcall(function() q:addOperation(function() end) end) end
