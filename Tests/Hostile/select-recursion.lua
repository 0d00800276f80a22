-- expect: timeout
local function f(n, ...) if n == 0 then return end return f(n, select(2, 1, ...)) end f(1, 1, 2, 3)
