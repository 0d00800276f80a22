-- expect: memory|error: stack overflow
local function f(a, b, c, d, e) local t = { a, b, c, d, e } return 1 + f(t, t, t, t, t) end return f()
