#!/usr/bin/env opscript
-- check.lua SECONDS PROGRAM...: runs test programs on all cores, each for at most SECONDS, and shows the last lines of those that fail.
local seconds, programs = assert(tonumber(arg[1]), "usage: check.lua SECONDS PROGRAM..."), { table.unpack(arg, 2) }
local function run(program) return opscript.run { program, timeout = seconds, stderr = "stdout" } end

local failed = 0
for i, _, problem in opscript.OperationQueue.new():map(run, programs, { onError = "collect" }) do
  if problem then failed = failed + 1 end
  print((problem and "not ok " or "ok ") .. i .. " - " .. programs[i])
  if problem then print(problem.message) end
end
os.exit(failed == 0)
