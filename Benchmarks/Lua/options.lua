-- About 100,000 operations a second on two cores, for `scripts/bench --options`. Prints the time
-- and the processor time of an operation in microseconds.
local count = tonumber(arg[1])
local queue = opscript.OperationQueue.new "work"

local function work()
  local sum = 0
  for i = 1, 3500 do sum = sum + i % 7 end
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
