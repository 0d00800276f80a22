-- expect: timeout
local s = ("1"):rep(1 << 20) while true do tonumber(s) end
