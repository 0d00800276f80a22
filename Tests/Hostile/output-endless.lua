-- expect: error: bytes of output
while true do print(("x"):rep(1000)) end
