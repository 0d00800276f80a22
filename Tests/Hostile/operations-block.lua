-- expect: ok
opscript.OperationQueue.new():addOperation(opscript.BlockOperation.new(function() while true do end end)) return true
