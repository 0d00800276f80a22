-- expect: error: C stack overflow
local function f() return coroutine.wrap(f)() end return f()
