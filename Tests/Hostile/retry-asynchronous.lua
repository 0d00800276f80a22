-- expect: ok
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { asynchronous = true, retry = math.maxinteger, main = function(op) op:fail(op.attempt) op:finish() op:fail() end }
queue:addOperation(op):waitUntilFinished()
assert(op.error.value < 1000)
