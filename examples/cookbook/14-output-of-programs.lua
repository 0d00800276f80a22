#!/usr/bin/env opscript
-- Reads the output of programs: as a whole when they have ended, or line by line while they run.

local queue = opscript.OperationQueue.new()

local whole = queue:addOperation(function()
  local ended = opscript.process({ "sort", "-n", input = "10\n9\n1\n" }):wait()
  return ended.stdout
end)

local longest = queue:addOperation(function()
  local longest = ""
  local program = opscript.process { "printf", "one\nthree\nfive\n", stdout = "pipe" }
  for line in program:lines() do
    if #line > #longest then longest = line end
  end
  return longest
end)

local failing = queue:addOperation(function()
  local ended = opscript.sh "echo 'no such file' >&2; exit 1":wait()
  return ended.status, ended.stderr
end)

queue:waitUntilAllOperationsAreFinished()
io.write(whole.result)
print(longest.result)
io.write(failing.results[1], "\t", failing.results[2])
