-- expect: timeout|error: overflow|memory
local function f() return load("return ...")(f()) end return f()
