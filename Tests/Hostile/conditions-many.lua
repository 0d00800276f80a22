-- expect: error: limits.storedValues
local op = opscript.Operation.new()
while true do op:addCondition "noFailedDependencies" end
