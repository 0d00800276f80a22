-- expect: error: limits.memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new()
    for k = 1, 50 do ops[i]["key" .. k] = ("x"):rep(200000) .. i .. "." .. k end
end
