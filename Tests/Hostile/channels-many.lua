-- expect: error: bytes in channels|memory
local channels = {}
while true do channels[#channels + 1] = opscript.channel() end
