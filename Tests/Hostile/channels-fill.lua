-- expect: error: bytes in channels
local channel = opscript.channel { capacity = math.huge }
local text = ("x"):rep(100000)
while true do channel:send(text) end
