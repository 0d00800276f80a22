#!/usr/bin/env opscript
-- Limits the time of a computation, of a program, and of a wait.

local Operation = opscript.Operation
local queue = opscript.OperationQueue.new()

-- A timeout stops the body of an operation.
local endless = Operation.new { name = "endless", timeout = 0.05, main = function() while true do end end }
queue:addOperation(endless)
endless:waitUntilFinished()
print(endless.error.kind)

-- A program is ended, with all processes that it has started.
print(pcall(opscript.run, { "sleep", 1000, timeout = 0.05 }))

-- A wait ends, but the operation continues.
local slow = queue:addOperation(function(op)
  while not op.isCancelled do opscript.sleep(1) end
  return "cancelled later"
end)
print(slow:waitUntilFinished(0.05))
slow:cancel()
print(slow:waitUntilFinished(), slow.result)
