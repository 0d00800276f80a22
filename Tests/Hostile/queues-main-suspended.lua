-- expect: ok|error
opscript.OperationQueue.main.isSuspended = false return true
