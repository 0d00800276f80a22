-- expect: ok
local s = ("a"):rep(1000000) return (s:find(("a"):rep(500000) .. "b", 1, true))
