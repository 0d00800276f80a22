-- expect: timeout|error: this wait can never end
local queue = opscript.OperationQueue.new()
local function hold(op) queue:addOperation(opscript.Operation.new { exclusive = "a" }):waitUntilFinished() end
queue:addOperation(opscript.Operation.new { exclusive = "a", main = hold }):waitUntilFinished()
while true do end
