-- expect: error: attempt to yield
coroutine.wrap(function() return ("x"):gsub("x", coroutine.yield) end)()
