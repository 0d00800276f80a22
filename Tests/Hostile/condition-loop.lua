-- expect: timeout
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { conditions = { function() while true do end end } }
queue:addOperation(op):waitUntilFinished()
while true do end
