-- expect: error
local t = setmetatable({}, { __index = string.rep }) return t.x
