-- expect: timeout
for _ in ("a"):rep(30000):gmatch(".-.-.-.-b") do end
