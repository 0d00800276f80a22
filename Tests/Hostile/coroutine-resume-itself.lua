-- expect: ok
local c c = coroutine.create(function() return coroutine.resume(c) end) return select(2, coroutine.resume(c)) == false
