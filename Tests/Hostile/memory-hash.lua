-- expect: memory|timeout
local t = {} for i = 1, math.huge do t["k" .. i] = i end
