-- expect: error: chain too long; possibly a loop
local t = {} setmetatable(t, { __newindex = t }) t.x = 1
