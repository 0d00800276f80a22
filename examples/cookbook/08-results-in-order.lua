#!/usr/bin/env opscript
-- Prints results in the order of the input, each as early as possible, although the operations end in another order.

local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 5 }
local finished = {}

local ops = {}
for i = 1, 5 do
  ops[i] = opscript.Operation.new(function()
    opscript.sleep(0.15 - 0.025 * i)                         -- later operations end first
    return i * i
  end)
  ops[i].completionBlock = function() finished[#finished + 1] = i end
  queue:addOperation(ops[i])
end

for i, op in ipairs(ops) do
  op:waitUntilFinished()
  print(i, op.result)
end
queue:waitUntilAllOperationsAreFinished()                    -- waits for the completion blocks, too
print("all " .. #finished .. " have ended")
