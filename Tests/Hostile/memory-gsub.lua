-- expect: memory
return #(("x"):rep(100000):gsub("x", ("y"):rep(10000)))
