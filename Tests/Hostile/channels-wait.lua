-- expect: timeout|error: can never end
opscript.channel { capacity = 1 }:receive()
while true do pcall(function() opscript.channel():receive(0.001) end) end
