-- expect: error: closing
local x <close> = setmetatable({}, { __close = function() error("closing") end })
