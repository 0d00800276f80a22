-- expect: ok
opscript.every(0.001, function() error("x") end) return true
