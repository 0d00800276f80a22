-- Operations that can never run are named at the end.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local held = Operation.new { name = "held by another", main = print }
held:addDependency(Operation.new { name = "never added", main = print })
OperationQueue.new():addOperation(held)

local suspended = OperationQueue.new { name = "suspended", isSuspended = true }
suspended:addOperation(Operation.new { name = "in a suspended queue", main = print })

print(pcall(function() held:waitUntilFinished() end))
print "the script has returned"
