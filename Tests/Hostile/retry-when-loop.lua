-- expect: timeout
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { retry = { attempts = 2, when = function() while true do end end }, main = function() error "x" end }
queue:addOperation(op):waitUntilFinished()
while true do end
