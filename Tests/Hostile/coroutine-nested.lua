-- expect: error: C stack overflow
local function f() coroutine.resume(coroutine.create(f)) local ok, e = coroutine.resume(coroutine.create(f)) if not ok then error(e, 0) end end
local function g() return coroutine.wrap(g)() end g()
