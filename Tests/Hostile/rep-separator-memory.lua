-- expect: memory
return #("x"):rep(1000000, ("y"):rep(1000))
