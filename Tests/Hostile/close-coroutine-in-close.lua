-- expect: timeout
local x <close> = setmetatable({}, { __close = function() pcall(function() local c = coroutine.wrap(function() local y <close> = setmetatable({}, { __close = function() while true do end end }) while true do end end) c() end) end })
