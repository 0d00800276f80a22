-- expect: error: cannot send
local op = ... local mt = {} local t = setmetatable({}, mt) mt.__gc = function() while true do end end op.stored = t for i = 1, 10 do t = op.stored end t = nil collectgarbage() return true
