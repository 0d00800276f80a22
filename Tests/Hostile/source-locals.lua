-- expect: error: too many local variables
assert(load(("local a "):rep(300)))
