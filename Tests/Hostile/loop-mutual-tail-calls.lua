-- expect: timeout
local g local function f() return g() end function g() return f() end f()
