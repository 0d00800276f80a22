-- expect: timeout
while true do pcall(opscript.sleep, 1e9) end
