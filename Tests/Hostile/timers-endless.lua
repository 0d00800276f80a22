-- expect: error: pending timers|timeout
while true do opscript.after(1000, function() end) end
