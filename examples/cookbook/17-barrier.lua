#!/usr/bin/env opscript
-- A barrier runs alone: after all operations that were added earlier, and before all that are added later.

local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 4 }
local path = os.tmpname()

local function append(op, line)
  local file <close> = assert(io.open(path, "a"))
  file:write(line, "\n")
end

for _ = 1, 5 do queue:addOperation(append, "before") end
local swap = queue:addBarrierBlock(function()                -- nothing else of this queue runs now
  local file <close> = assert(io.open(path))
  local count = select(2, file:read("a"):gsub("\n", ""))
  assert(io.open(path, "w")):close()
  return count
end)
for _ = 1, 3 do queue:addOperation(append, "after") end
queue:waitUntilAllOperationsAreFinished()

print("lines before the barrier", swap.result)
local lines = 0
for line in io.lines(path) do
  assert(line == "after")
  lines = lines + 1
end
print("lines after it", lines)

os.remove(path)
