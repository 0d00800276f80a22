-- expect: timeout
local queue = opscript.OperationQueue.new()
local op = opscript.Operation.new { retry = { attempts = 2, delay = 1e308, backoff = 1e308 }, main = function() error "x" end }
queue:addOperation(op):waitUntilFinished()
