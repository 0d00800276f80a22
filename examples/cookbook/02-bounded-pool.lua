#!/usr/bin/env opscript
-- Works through a directory, never more than two files at a time.

local fs = opscript.fs
local directory = fs.tempdir()                               -- disappears when the script ends
for i = 1, 6 do assert(fs.write(directory .. "/file" .. i, ("x"):rep(100 * i))) end

local function size(op, path)
  local start = opscript.now()
  local bytes = #assert(fs.read(path))
  opscript.sleep(0.02)                                       -- stands for longer work
  return bytes, start, opscript.now()
end

local pool = opscript.OperationQueue.new { name = "pool", maxConcurrentOperationCount = 2 }
local names, ops = {}, {}
for path in fs.walk(directory) do
  names[#names + 1] = path:match "[^/]+$"
  ops[#ops + 1] = pool:addOperation(size, path)
end
pool:waitUntilAllOperationsAreFinished()

local most = 0
for i, op in ipairs(ops) do
  print(names[i], op.result)
  local together = 0                                         -- the number at work when this one began
  for _, other in ipairs(ops) do
    local began = op.results[2]
    if other.results[2] <= began and began < other.results[3] then together = together + 1 end
  end
  most = math.max(most, together)
end
print("never more than two: " .. tostring(most <= 2))
