-- expect: timeout
local a = ("x"):rep(1 << 20) while true do local t = { [a .. "y"] = 1 } end
