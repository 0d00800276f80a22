-- expect: timeout
return -setmetatable({}, { __unm = function() while true do end end })
