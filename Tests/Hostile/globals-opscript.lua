-- expect: ok
opscript.OperationQueue.new, opscript.Operation.new, opscript.sleep = nil return opscript.sleep == nil
