-- expect: timeout
local s, w = ("a"):rep(1000000), ("a"):rep(500000) .. "b" while true do s:find(w, 1, true) end
