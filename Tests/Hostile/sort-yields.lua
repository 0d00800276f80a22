-- expect: error: attempt to yield
local c = coroutine.wrap(function() table.sort({ 3, 2, 1 }, coroutine.yield) end) c()
