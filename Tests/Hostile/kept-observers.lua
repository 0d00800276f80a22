-- expect: error: limits.memory|memory
local op, f = opscript.Operation.new(), function() end
while true do op:observe("isFinished", f) end
