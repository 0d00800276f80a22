-- expect: timeout
local a = ("\0"):rep(1 << 21) local b = a .. "x" while a < b do end
