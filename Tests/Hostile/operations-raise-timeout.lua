-- expect: timeout
local op = ... op.timeout = 1e9 while true do end
