-- expect: ok
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { conditions = { function() local t = {} for i = 1, 1e9 do t[i] = { i } end end } }
queue:addOperation(op):waitUntilFinished()
assert(op.error.kind == "memory")
