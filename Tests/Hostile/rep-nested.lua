-- expect: memory
local s = "x" while true do s = s:rep(1000) end
