-- expect: ok
local op, queue, name = opscript.Operation.new(print), opscript.OperationQueue.new(), ("x"):rep(1 << 20)
pcall(function() op[name] = 1 end)
pcall(function() queue[name] = 1 end)
pcall(opscript.Operation.new, { [name] = 1 })
pcall(op.observe, op, name, print)
pcall(opscript.process, { "true", [name] = 1 })
