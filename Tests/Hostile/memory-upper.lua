-- expect: memory
local s = ("x"):rep(1 << 22) local t = {} while true do t[#t + 1] = s:upper() .. #t end
