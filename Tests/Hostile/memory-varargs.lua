-- expect: memory
local function f(...) return f(1, 2, 3, 4, 5, 6, 7, 8, ...) end
local t = {} while true do t[#t + 1] = table.pack(table.unpack({}, 1, 100000)) end
