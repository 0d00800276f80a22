-- expect: error: limits.memory
local channels = {}
for i = 1, 900 do channels[i] = opscript.channel { name = ("n"):rep(1000000) .. i } end
