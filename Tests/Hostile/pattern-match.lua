-- expect: timeout
return ("a"):rep(30000):match("(.-)(.-)(.-)(.-)b")
