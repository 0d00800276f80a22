-- expect: error: limits.memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new()
    for j = 1, i - 1 do ops[i]:addDependency(ops[j]) end
end
