-- expect: error: bytes in channels|error: limits.memory|memory
local channels = {}
while true do channels[#channels + 1] = opscript.channel() end
