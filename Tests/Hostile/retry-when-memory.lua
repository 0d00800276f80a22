-- expect: ok
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new {
  retry = { attempts = 2, when = function() local t = {} for i = 1, 1e9 do t[i] = { i } end end }, main = function() error("x", 0) end,
}
queue:addOperation(op):waitUntilFinished()
assert(op.error.value == "x" and op.attempt == 1)
