-- expect: timeout
local function f() return true end while f() and f() do end
