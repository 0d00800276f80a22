-- Runs a file in an operation: `opscript inside.lua FILE`.
local operation = opscript.OperationQueue.new():addOperation(function(_, file) assert(loadfile(file))() end, ...)
operation:waitUntilFinished()
assert(not operation.error, operation.error)
