-- expect: error: limits.memory
local queue, ops = opscript.OperationQueue.new(), {}
for i = 1, 900 do
    ops[i] = queue:addOperation(function(_, i) error(("x"):rep(3000000) .. i) end, i)
    ops[i]:waitUntilFinished()
    local kept = ops[i].error
    assert(#kept.message < 1100000)
    if kept.kind == "memory" then error(kept.message, 0) end
end
