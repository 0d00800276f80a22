-- expect: timeout|memory
local function f(...) while true do select("#", ...) end end f(table.unpack({}, 1, 100000))
