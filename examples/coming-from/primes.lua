#!/usr/bin/env opscript
-- Counts primes. The store has the counts of earlier runs.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local function primesBelow(op, limit)
  print("counting below " .. limit)
  local count = 0
  for n = 2, limit - 1 do
    local isPrime = true
    for d = 2, math.floor(n ^ 0.5) do isPrime = isPrime and n % d ~= 0 end
    if isPrime then count = count + 1 end
  end
  return count
end

local limits, operations = { 100, 1000, 10000 }, {}
for i, limit in ipairs(limits) do
  operations[i] = Operation.new { name = "primes", memoize = true, arguments = { limit }, main = primesBelow }
end
OperationQueue.new():addOperations(operations, true)
for i, limit in ipairs(limits) do print(limit, operations[i].result) end
