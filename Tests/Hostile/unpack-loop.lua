-- expect: timeout
local t = {} while true do table.unpack(t, 1, 200000) end
