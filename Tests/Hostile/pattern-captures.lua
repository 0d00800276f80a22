-- expect: error: too many captures
return ("x"):rep(100):find(("(x)"):rep(33))
