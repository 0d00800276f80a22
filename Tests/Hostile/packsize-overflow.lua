-- expect: error: format result too large
return string.packsize(("c2147483647"):rep(3))
