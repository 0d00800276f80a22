-- expect: timeout
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { retry = math.maxinteger, timeout = 0.001, main = function() while true do end end }
queue:addOperation(op):waitUntilFinished()
