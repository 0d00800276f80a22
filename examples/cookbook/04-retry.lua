#!/usr/bin/env opscript
-- Tries again after a failure, with a pause that doubles. Cancelling ends the pause.

local function retry(op, attempts, pause, f)
  for attempt = 1, attempts do
    local ok, result = pcall(f, attempt)
    if ok then return result, attempt end
    if attempt == attempts or op.isCancelled then error(result, 0) end
    opscript.sleep(pause)
    pause = pause * 2
  end
end

local function flaky(attempt)
  if attempt < 3 then error("busy at attempt " .. attempt, 0) end
  return "done"
end

local queue = opscript.OperationQueue.new()
local patient = queue:addOperation(retry, 5, 0.01, flaky)
local hasty = queue:addOperation(retry, 2, 0.01, flaky)
queue:waitUntilAllOperationsAreFinished()

print(patient.result, patient.results[2] .. " attempts")
print(hasty, hasty.error)
