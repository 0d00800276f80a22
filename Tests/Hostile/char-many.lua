-- expect: timeout
local t = {} for i = 1, 100000 do t[i] = 65 end while true do string.char(table.unpack(t)) end
