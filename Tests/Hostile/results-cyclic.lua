-- expect: ok
local t = {} t.t = t return t
