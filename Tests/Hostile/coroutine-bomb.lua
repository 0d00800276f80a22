-- expect: timeout
while true do coroutine.wrap(function() end)() end
