-- expect: timeout
local op = ... op.timeout = nil while true do end
