-- expect: error: limits.storedValues
local keys = {}
for i = 1, 10000 do keys[i] = "key" .. i end
opscript.Operation.new { exclusive = keys }
