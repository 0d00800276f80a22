-- expect: timeout
local s = ("("):rep(100000) while true do s:find("%b()b") end
