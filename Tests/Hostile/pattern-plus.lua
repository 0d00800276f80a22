-- expect: timeout
return ("a"):rep(3000):find("a+a+a+a+a+b")
