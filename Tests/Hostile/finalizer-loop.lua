-- expect: error: no finalizers
setmetatable({}, { __gc = function() while true do end end }) collectgarbage()
