-- expect: ok
opscript.OperationQueue.main:addOperation(function() while true do end end) return true
