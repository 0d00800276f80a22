-- expect: timeout
local function f() pcall(f) while true do pcall(f) end end f()
