-- expect: timeout
opscript.after(0, function() while true do end end) opscript.sleep(1000)
