-- expect: error: cannot change a protected metatable
setmetatable(setmetatable({}, { __metatable = 1 }), {})
