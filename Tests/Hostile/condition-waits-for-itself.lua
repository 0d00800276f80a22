-- expect: ok
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { conditions = { function(op) op:waitUntilFinished() end } }
queue:addOperation(op):waitUntilFinished()
assert(op.error.message:find "waits for itself")
