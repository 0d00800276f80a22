-- expect: error: no finalizers
local function f(t) setmetatable(t, { __gc = f }) end f({})
