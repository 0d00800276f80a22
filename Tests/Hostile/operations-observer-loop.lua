-- expect: ok
local op = opscript.Operation.new(function() end) op:observe("isFinished", function() while true do end end) opscript.OperationQueue.new():addOperation(op) return true
