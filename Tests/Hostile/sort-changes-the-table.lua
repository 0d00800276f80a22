-- expect: ok|error
local t = {} for i = 1, 100 do t[i] = i end pcall(table.sort, t, function(a, b) t[math.random(100)] = nil return (a or 0) < (b or 0) end)
