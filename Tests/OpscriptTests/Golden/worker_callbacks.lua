-- A completion block that an operation sets runs in the state of that operation, with its variables.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local here = "the main state's"
local inner = Operation.new(function() return "inner" end)
queue:addOperation(function()
  local count = 0
  inner.completionBlock = function(op)
    count = count + 1
    here = "a copy"
    print("on the worker", op.result, count, here)
  end
  queue:addOperation(inner)
end)
