-- COUNT operations whose bodies loop LENGTH times, for `scripts/bench --options`: options.lua COUNT LENGTH.
-- Prints the time and the processor time of an operation in microseconds.
local count, length = tonumber(arg[1]), tonumber(arg[2])
local queue = opscript.OperationQueue.new "work"

local function work()
  local sum = 0
  for i = 1, length do sum = sum + i % 7 end
  return sum
end

-- At most 2,000 operations wait.
local start, startOfProcessor, previous = opscript.now(), os.clock(), nil
for _ = 1, count // 1000 do
  local last
  for _ = 1, 1000 do last = queue:addOperation(work) end
  if previous then previous:waitUntilFinished() end
  previous = last
end
queue:waitUntilAllOperationsAreFinished()
local time, processorTime = opscript.now() - start, os.clock() - startOfProcessor
print(("%.3f %.3f"):format(time / count * 1e6, processorTime / count * 1e6))
