#!/usr/bin/env opscript
-- Shows the progress in one line: a mark for each operation that has finished.

local queue = opscript.OperationQueue.new()

local function work(op, n)
  local sum = 0
  for i = 1, n * 10000 do sum = sum + i % n end
  return sum
end

io.write "["
for n = 1, 20 do
  local op = opscript.Operation.new(work, n)
  op.completionBlock = function()                            -- runs in this state while the state waits
    io.write "#"
    io.flush()
  end
  queue:addOperation(op)
end
queue:waitUntilAllOperationsAreFinished()

local progress = queue.progress
print("] " .. progress.completedUnitCount .. " of " .. progress.totalUnitCount)
