-- expect: error: pending timers
while true do opscript.after(1000, function() end) end
