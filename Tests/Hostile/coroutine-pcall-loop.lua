-- expect: timeout
local c = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) while true do pcall(c) end
