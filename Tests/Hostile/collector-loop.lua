-- expect: timeout
while true do collectgarbage() end
