-- expect: timeout
local x <close> = setmetatable({}, { __close = function() ("a"):rep(30000):find(".-.-.-.-b") end }) while true do end
