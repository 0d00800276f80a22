-- expect: timeout
while true do pcall(print, ("x"):rep(1000)) end
