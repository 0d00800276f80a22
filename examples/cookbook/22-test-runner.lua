#!/usr/bin/env opscript
-- Runs tests at once, except those that share something: tests of the database exclude one another, and a big one needs much memory. A test
-- whose tool is missing is skipped.

local Operation = opscript.Operation
local queue = opscript.OperationQueue.new "tests"
opscript.resources { memory = "4G" }

local tests = {
  { name = "parser", main = function() assert(tonumber "12" == 12) end },
  { name = "insert", exclusive = "database", main = function() opscript.sleep(0.01) end },
  { name = "migrate", exclusive = { "database", "disk" }, main = function() opscript.sleep(0.01) end },
  { name = "query", exclusive = "database", main = function() error("expected 3 rows, got 2", 0) end },
  { name = "large", needs = { memory = "3G" }, main = function() opscript.sleep(0.01) end },
  { name = "larger", needs = { memory = "4G" }, main = function() opscript.sleep(0.01) end },
  { name = "flaky", retry = 3, main = function(op) assert(op.attempt == 2, "no answer") end },
  { name = "backup", conditions = { { "fileExists", "/no/such/tool" } }, main = function() end },
}

local operations = {}
for i, test in ipairs(tests) do operations[i] = Operation.new(test) end
queue:addOperations(operations, true)

local counts = { passed = 0, failed = 0, skipped = 0 }
for _, op in ipairs(operations) do
  local outcome = not op.error and "passed" or op.error.kind == "condition" and "skipped" or "failed"
  counts[outcome] = counts[outcome] + 1
  if op.error then print(outcome, op.name, op.error.message:match "[^: ][^:]*$") end
  if op.attempt > 1 then print(outcome, op.name, "at attempt " .. op.attempt) end
end
print(counts.passed .. " passed, " .. counts.failed .. " failed, " .. counts.skipped .. " skipped")
