-- expect: ok|error: stack overflow|timeout
local function f() return select(2, pcall(f)) end f()
