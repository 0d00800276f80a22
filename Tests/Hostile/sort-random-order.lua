-- expect: ok|error: invalid order function
local t = {} for i = 1, 1000 do t[i] = i end pcall(table.sort, t, function() return math.random() < 0.5 end)
