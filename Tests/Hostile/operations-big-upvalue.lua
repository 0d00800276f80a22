-- expect: error: cannot be sent
local s = ("x"):rep(2 << 20) opscript.OperationQueue.new():addOperation(function() return #s end)
