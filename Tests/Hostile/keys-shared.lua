-- expect: ok
local queue, list, keys = opscript.OperationQueue.new(), {}, {}
for i = 1, 100 do keys[i] = "key" .. i end
for i = 1, 90 do list[i] = opscript.Operation.new { exclusive = keys, main = function() end } end
queue:addOperations(list, true)
