-- expect: error: limits.memory
local queue, ops = opscript.OperationQueue.new(), {}
for i = 1, 900 do
    ops[i] = queue:addOperation(function(_, i) return ("x"):rep(500000) .. i end, i)
    ops[i]:waitUntilFinished()
    if ops[i].error then error(ops[i].error.message, 0) end
end
