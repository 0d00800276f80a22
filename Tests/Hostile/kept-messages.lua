-- expect: error: limits.memory|memory
local channel = opscript.channel { capacity = math.huge }
while true do channel:send(1) end
