#!/usr/bin/env opscript
-- Reads the output of programs: as a whole when they have ended, or line by line while they run.

local queue = opscript.OperationQueue.new()

local whole = queue:addOperation(function() return opscript.run { "sort", "-n", input = "10\n9\n1\n" } end)

local longest = queue:addOperation(function()
  local longest = ""
  for line in opscript.process({ "printf", "one\nthree\nfive\n", stdout = "pipe" }):lines() do
    if #line > #longest then longest = line end
  end
  return longest
end)

local sorted = queue:addOperation(function()                 -- a pipe of the kernel between two programs
  return opscript.pipeline({ "seq", 100000 }, { "sort", "-rn" }, { "head", "-n", 1 })
end)

local failing = queue:addOperation(function() return opscript.run "echo 'no such file' >&2; exit 3" end)

queue:waitUntilAllOperationsAreFinished()
print(whole.result)
print(longest.result, sorted.result)
print(failing.error.value.status, failing.error.message)
