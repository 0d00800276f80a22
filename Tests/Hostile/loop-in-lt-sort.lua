-- expect: timeout
local mt = { __lt = function() while true do end end } local t = {} for i = 1, 9 do t[i] = setmetatable({}, mt) end table.sort(t)
