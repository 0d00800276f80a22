-- expect: timeout
local s = ("\x80"):rep(1 << 20) while true do pcall(utf8.len, s) utf8.offset(s, 0, #s) end
