-- expect: error: chain too long
local t = {} setmetatable(t, { __newindex = t }) t.x = 1
