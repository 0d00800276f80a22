-- expect: timeout
opscript.OperationQueue.new():addOperation(function() while true do end end):waitUntilFinished() while true do end
