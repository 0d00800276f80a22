-- expect: memory|error: stack overflow
local function f() return 1 + f() end return f()
