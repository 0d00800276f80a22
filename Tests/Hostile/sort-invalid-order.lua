-- expect: error: invalid order function
local t = {} for i = 1, 100 do t[i] = i % 10 end table.sort(t, function() return true end)
