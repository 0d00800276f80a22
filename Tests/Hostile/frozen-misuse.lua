-- expect: ok|error: not available
local f = opscript.freeze { x = { 1 }, [1.5] = 2 }
assert(not pcall(function() f.x = 1 end) and not pcall(rawset, f, "x", 1) and not pcall(rawget, f, "x"))
assert(not pcall(next, f) and getmetatable(f) == false and not pcall(setmetatable, f, {}))
local nextPair, view = pairs(f)
assert(not pcall(nextPair, {}, nil) and not pcall(nextPair, view, "missing") and not pcall(nextPair))
assert(not pcall(opscript.freeze) and not pcall(opscript.freeze, coroutine.create(print)) and not pcall(opscript.freeze, print))
assert(table.concat(opscript.freeze { "a", "b" }) == "ab" and not pcall(table.sort, opscript.freeze { 2, 1 }))
return true
