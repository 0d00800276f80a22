-- expect: memory
local t = {} for i = 1, 1000 do t[i] = ("x"):rep(100000) end return #table.concat(t)
