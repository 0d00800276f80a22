-- expect: timeout
local t = { 1 } while true do next(t) end
