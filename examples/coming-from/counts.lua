#!/usr/bin/env opscript
-- Counts the words of each text, and adds them up. Runs only the steps that an edit affects.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { dependencyPolicy = "succeeded" }

-- An operation whose work is a line for the shell.
local function step(inputs, output, line)
  return Operation.new { name = output, inputs = inputs, outputs = output, main = function() opscript.run(line) end }
end

local total = step("counts/*.count", "total", "awk '{ sum += $1 } END { print sum }' counts/*.count > total")
for _, text in ipairs(opscript.fs.glob "texts/*.txt") do
  local count = text:gsub("^texts/(.*)%.txt$", "counts/%1.count")
  local op = step(text, count, ("wc -w < %s > %s"):format(text, count))
  total:addDependency(op)
  queue:addOperation(op)
end
queue:addOperation(total)
queue:waitUntilAllOperationsAreFinished()
