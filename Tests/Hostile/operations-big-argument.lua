-- expect: error: cannot be sent
opscript.OperationQueue.new():addOperation(function(_, s) return #s end, ("x"):rep(2 << 20))
