-- expect: error: limits.memory
local ops = {}
for i = 1, 900 do
    ops[i] = opscript.Operation.new()
    for j = 1, 90 do
        local text = ("x"):rep(9000) .. i .. "." .. j
        ops[i]:addCondition(function() return #text > 0 end)
    end
end
