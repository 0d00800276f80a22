-- expect: timeout
return ("x"):gsub("x", setmetatable({}, { __index = function() while true do end end }))
