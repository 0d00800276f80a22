-- expect: timeout
return ("("):rep(400000):find("%b()")
