#!/usr/bin/env opscript
-- Keeps a fast producer from filling memory: adding waits while eight operations have not started.

local queue = opscript.OperationQueue.new { maxPendingOperationCount = 8, maxConcurrentOperationCount = 2 }
local most, sum = 0, 0

for i = 1, 1000 do                                           -- stands for the lines of a large file
  local op = opscript.Operation.new(function(op, n) return n % 7 end, i)
  op.completionBlock = function(op) sum = sum + op.result end
  queue:addOperation(op)                                     -- completion blocks run while this waits
  most = math.max(most, queue.operationCount)
end
queue:waitUntilAllOperationsAreFinished()

print("sum", sum)
print("never more than 8 and the two that run: " .. tostring(most <= 10))
