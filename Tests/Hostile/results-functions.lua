-- expect: ok
local function f() while true do end end return f
