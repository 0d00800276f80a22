-- expect: error: not enough memory|memory|timeout|error: not available
local kept, t = {}, {}
for i = 1, 10000 do t[i] = i end
while true do kept[#kept + 1] = opscript.freeze(t) end
