-- expect: ok
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { retry = math.maxinteger, main = function(op) error(op.attempt, 0) end }
queue:addOperation(op):waitUntilFinished()
assert(op.error.value < 1000 and op.attempt == op.error.value)
assert(not pcall(queue.addOperation, queue, function() end))
