-- expect: ok
local _ENV = {} x = 1 return x
