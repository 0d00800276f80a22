-- expect: ok
return load("x = 1 return x", "c", "t", {})()
