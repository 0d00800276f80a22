-- expect: ok|error|timeout
return setmetatable({}, { __transfer = function() while true do end end })
