-- expect: timeout
while true do pcall(string.find, ("a"):rep(30000), ".-.-.-.-b") end
