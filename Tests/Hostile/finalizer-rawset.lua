-- expect: error: no finalizers
local mt = {} rawset(mt, "__gc", true) setmetatable({}, mt)
