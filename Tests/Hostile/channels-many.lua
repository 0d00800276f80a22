-- expect: error: bytes in channels
local channels = {}
while true do channels[#channels + 1] = opscript.channel() end
