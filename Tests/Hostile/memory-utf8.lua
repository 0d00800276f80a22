-- expect: memory
local t = {} for i = 1, 200 do t[i] = 0x7fffffff end local s = utf8.char(table.unpack(t)) while true do s = s .. s end
