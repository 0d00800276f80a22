#!/usr/bin/env opscript
-- Shows the effect of a failure, which an operation's or a queue's `dependencyPolicy` decides.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local function say(op) return op.name .. " ran" end

-- By default an operation runs when its dependencies have finished, even if they failed. It can check them.
local fails = Operation.new { name = "fails", main = function() error("out of paper", 0) end }
local looks = Operation.new {
  name = "looks",
  main = function(op) return op.dependencies[1].error.message .. " was the problem" end,
  dependencies = { fails },
}

-- With "succeeded" the operation is cancelled instead, and so are dependents with the same policy.
local strict = Operation.new { name = "strict", main = say, dependencies = { fails }, dependencyPolicy = "succeeded" }
local stricter = Operation.new { name = "stricter", main = say, dependencies = { strict }, dependencyPolicy = "succeeded" }

-- Operations that do not depend on the failure run.
local other = Operation.new { name = "other", main = say, dependencyPolicy = "succeeded" }
-- This cleanup has the default policy, so it always runs.
local last = Operation.new { name = "last", main = say, dependencies = { stricter, other } }

local operations = { fails, looks, strict, stricter, other, last }
OperationQueue.new():addOperations(operations, true)
for _, op in ipairs(operations) do
  print(op, op.result or (op.error and op.error.kind .. ": " .. op.error.message))
end

-- A queue gives its policy to the operations that are added to it.
local chain = OperationQueue.new { dependencyPolicy = "succeeded", maxConcurrentOperationCount = 1 }
local first = Operation.new { name = "first", main = function() error("stop", 0) end }
local second = Operation.new { name = "second", main = say, dependencies = { first } }
chain:addOperations({ first, second }, true)
print(second.isCancelled, second.error.kind, first.error)
