-- expect: error
return string.packsize(("c2147483647"):rep(3))
