-- expect: timeout
return ("a"):rep(30000):find("^.-.-.-.-b")
