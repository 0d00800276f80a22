-- expect: error: chain too long; possibly a loop
local t = {} setmetatable(t, { __index = t }) return t.x
