#!/usr/bin/env opscript
-- Splits a computation over all cores, into more pieces than cores, so that no core is idle at the end.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local function countPrimes(op, first, last)
  local count = 0
  for n = first, last do
    local isPrime = n > 1
    for d = 2, math.floor(n ^ 0.5) do
      if n % d == 0 then
        isPrime = false
        break
      end
    end
    if isPrime then count = count + 1 end
  end
  return count
end

local pieces, size = {}, 12500
for first = 1, 200000, size do pieces[#pieces + 1] = Operation.new(countPrimes, first, first + size - 1) end

local sum = Operation.new { dependencies = pieces, main = function()
  local sum = 0
  for _, piece in ipairs(pieces) do sum = sum + piece.result end
  return sum
end }

local queue = OperationQueue.new "primes"
queue:addOperations(pieces, false)
queue:addOperation(sum):waitUntilFinished()
print(#pieces .. " pieces", sum.result .. " primes")
