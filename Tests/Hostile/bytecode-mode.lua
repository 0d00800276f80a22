-- expect: error: attempt to load a binary chunk
assert(load("\27Lua", "x", "b"))
