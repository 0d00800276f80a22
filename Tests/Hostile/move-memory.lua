-- expect: memory
local t = { 1 } table.move(setmetatable({}, { __index = function() return 1 end }), 1, 1 << 40, 1, t)
