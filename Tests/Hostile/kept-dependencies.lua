-- expect: error: limits.memory|memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new { name = ("n"):rep(100000) .. i }
    for j = 1, i - 1 do ops[i]:addDependency(ops[j]) end
end
