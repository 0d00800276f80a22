-- expect: error: limits.memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new()
    ops[i].name = ("n"):rep(2000000) .. i
end
