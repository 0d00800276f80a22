-- expect: timeout|error: overflow
local function f() return load("return ...")(f()) end return f()
