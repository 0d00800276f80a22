-- expect: ok
opscript.OperationQueue.new():addOperation(function() while true do end end) return true
