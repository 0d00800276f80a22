#!/usr/bin/env opscript
-- Searches in many places at once. When one search has the answer, the others are cancelled.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local function mix(n) return n * 48271 % 2147483647 end      -- a different result for each number
local wanted = mix(1234567)

local function search(op, first, last)                       -- runs on a worker
  for n = first, last do
    if mix(n) == wanted then return n end
    if n % 1024 == 0 and op.isCancelled then return nil end
  end
end

local queue = OperationQueue.new "search"
local answer
for first = 1, 100000000, 200000 do
  local op = Operation.new(search, first, first + 199999)
  op.completionBlock = function()
    if op.result and not answer then
      answer = op.result
      queue:cancelAllOperations()
    end
  end
  queue:addOperation(op)
end
queue:waitUntilAllOperationsAreFinished()

print("the number is " .. answer)
