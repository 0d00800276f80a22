-- expect: memory
local t = {} for i = 1, math.huge do t[i] = ("%d"):format(i):rep(100) end
