#!/usr/bin/env opscript
-- Keeps a fast producer from filling memory: it goes on only while fewer than eight operations are unfinished.

local queue = opscript.OperationQueue.new()
local limit, most, sum = 8, 0, 0

local window = {}                                            -- the operations under way, oldest first
local function takeOldest()
  local op = table.remove(window, 1)
  op:waitUntilFinished()
  if op.error then error(op.error.message, 0) end
  sum = sum + op.result
end

for i = 1, 1000 do                                           -- stands for the lines of a large file
  if #window == limit then takeOldest() end
  window[#window + 1] = queue:addOperation(function(op, n) return n % 7 end, i)
  most = math.max(most, queue.operationCount)
end
while #window > 0 do takeOldest() end

print("sum", sum)
print("never more than " .. limit .. ": " .. tostring(most <= limit))
