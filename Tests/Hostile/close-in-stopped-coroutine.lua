-- expect: timeout
local function f(n) local x <close> = setmetatable({}, { __close = function() while true do end end }) if n > 0 then f(n - 1) end while true do end end coroutine.resume(coroutine.create(f), 10)
