-- expect: memory
local t = {} for i = 1, 62 do for j = 1, 1e5 do t[(1 << i) + j] = true end end
