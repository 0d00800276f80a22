-- expect: timeout
local s = ("x"):rep(100000) while true do s:gsub("", "") end
