-- expect: timeout
return ("a "):rep(10000):find("%f[%w].-%f[%w].-%f[%w].-%f[%w]b")
