-- expect: timeout
local f = ("x"):rep(100000) local s = ("x"):rep(100000) while true do string.unpack(f, s) end
