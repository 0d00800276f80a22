-- expect: error: of which there is 0
opscript.OperationQueue.new():addOperation(opscript.Operation.new { needs = { gpu = math.maxinteger } })
