-- expect: error
error(("x"):rep(1 << 20))
