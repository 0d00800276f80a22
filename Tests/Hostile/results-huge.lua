-- expect: error: cannot be sent
return ("x"):rep(2 << 20)
