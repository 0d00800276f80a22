-- expect: timeout
return ("a"):rep(20000):find("^(.*)(.*)%1%2b")
