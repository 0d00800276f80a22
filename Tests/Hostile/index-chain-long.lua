-- expect: error: chain too long
local t = {} setmetatable(t, { __index = t }) return t.x
