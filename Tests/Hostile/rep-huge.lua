-- expect: error: resulting string too large
return ("x"):rep(1 << 40)
