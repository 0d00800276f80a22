-- expect: ok
for i = 1, 300 do opscript.Operation.new().name = ("n"):rep(1000000) .. i end
