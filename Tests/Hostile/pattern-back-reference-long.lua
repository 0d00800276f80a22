-- expect: timeout
return ("a"):rep(30000):find("(.*)(.*)(.*)%3b")
