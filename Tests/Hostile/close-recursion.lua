-- expect: timeout|error
local function f() local x <close> = setmetatable({}, { __close = f }) end f()
