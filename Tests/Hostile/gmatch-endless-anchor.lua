-- expect: ok
local n = 0 for _ in ("aaa"):gmatch("^a") do n = n + 1 end return n
