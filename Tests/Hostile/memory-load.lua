-- expect: memory|timeout
local n = 0 load(function() n = n + 1 return "x" .. n .. "=" .. n .. " " end)
