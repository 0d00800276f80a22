-- expect: timeout
local c = coroutine.wrap(function() local x <close> = setmetatable({}, { __close = function() while true do end end }) coroutine.yield() end) c() while true do end
