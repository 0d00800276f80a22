-- expect: error: attempt to load a binary chunk
local n = 0 assert(load(function() n = n + 1 return n == 1 and "\27Lua" or nil end, "x", "bt"))
