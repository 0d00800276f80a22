-- expect: error: pending timers|timeout
while true do opscript.every(0.001, function() end) end
