-- expect: error
assert(load(("return function() "):rep(1000) .. ("end "):rep(1000)))
