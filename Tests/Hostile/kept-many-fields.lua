-- expect: error: limits.memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new()
    for k = 1, 100 do ops[i][("k"):rep(5000) .. k] = k end
end
