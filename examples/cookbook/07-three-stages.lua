#!/usr/bin/env opscript
-- A pipeline of three stages. An item enters a stage when it has left the previous stage. Each stage has its own limit.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local fetching = OperationQueue.new { name = "fetch", maxConcurrentOperationCount = 4, dependencyPolicy = "succeeded" }
local computing = OperationQueue.new { name = "compute", dependencyPolicy = "succeeded" }
local storing = OperationQueue.new { name = "store", maxConcurrentOperationCount = 1, dependencyPolicy = "succeeded" }

local items = {}
for i, item in ipairs { "4", "9", "x", "16" } do
  local fetch = Operation.new { name = "fetch " .. item, main = function()
    opscript.sleep(0.01)                                     -- stands for a download
    return tonumber(item) or error("'" .. item .. "' is no number", 0)
  end }
  local compute = Operation.new { name = "compute " .. item, main = function() return math.sqrt(fetch.result) end }
  local store = Operation.new { name = "store " .. item, main = function() return item .. " → " .. compute.result end }
  compute:addDependency(fetch)
  store:addDependency(compute)
  fetching:addOperation(fetch)
  computing:addOperation(compute)
  storing:addOperation(store)
  items[i] = { fetch = fetch, store = store }
end

for _, item in ipairs(items) do
  item.store:waitUntilFinished()
  print(item.store.result or "cancelled: " .. item.fetch.error.message)
end
