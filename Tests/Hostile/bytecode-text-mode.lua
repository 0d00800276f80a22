-- expect: error: attempt to load a text chunk
assert(load("return 1", "x", "b"))
