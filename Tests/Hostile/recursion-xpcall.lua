-- expect: ok|error|timeout
local function f() return xpcall(f, f) end f()
