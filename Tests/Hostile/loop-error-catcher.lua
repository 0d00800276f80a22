-- expect: timeout
while true do pcall(error) end
