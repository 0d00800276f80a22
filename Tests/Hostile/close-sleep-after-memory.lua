-- expect: memory|timeout
local x <close> = setmetatable({}, { __close = function() opscript.sleep(0) while true do end end }) local s = "x" while true do s = s .. s end
