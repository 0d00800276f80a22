#!/usr/bin/env opscript
-- Classes of operations: one that tries again, and a subclass of it that computes.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

-- Calls `try` until it succeeds, at most `tries` times. (The option `retry` repeats the whole operation.)
local Retrying = Operation:subclass "Retrying"
Retrying.tries = 3

function Retrying:main()
  local problem
  for number = 1, self.tries do
    if self.isCancelled then return end
    self.attemptNumber = number                              -- storage of the operation: visible in every state
    local ok, result = pcall(self.try, self, number)
    if ok then return result end
    problem = result
  end
  error(problem, 0)
end

-- Succeeds when it has been tried often enough.
local Lucky = Retrying:subclass "Lucky"

function Lucky:init(name, needed)
  self.name = name
  self.needed = needed
end

function Lucky:try(number)
  if number < self.needed then error(self.name .. " had no luck " .. number .. " times", 0) end
  return "luck at attempt " .. number
end

function Lucky:cancel()
  print("somebody cancels " .. self.name)
  Operation.cancel(self)
end

local first, second, third = Lucky.new("first", 2), Lucky.new("second", 5), Lucky.new("third", 1)
third:cancel()
OperationQueue.new():addOperations({ first, second, third }, true)
for _, op in ipairs { first, second, third } do
  print(op, op.result or op.error or "nothing", op.attemptNumber)
end
print(first:isKindOf(Lucky), first:isKindOf(Retrying), first:isKindOf(Operation))
