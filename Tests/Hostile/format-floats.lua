-- expect: timeout
local t = {} for i = 1, 100 do t[i] = 1.7e308 end local f = ("%99.99f"):rep(100) while true do f:format(table.unpack(t)) end
