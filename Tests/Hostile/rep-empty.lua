-- expect: ok
return #(""):rep(1 << 62)
