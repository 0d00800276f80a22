-- expect: timeout
while true do local s = ("x"):rep(1 << 20) end
