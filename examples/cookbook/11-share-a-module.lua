#!/usr/bin/env opscript
-- Uses a module in operations. The module is sent by name: each worker loads it once, with the `package.path` of the script.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "modules/?.lua;" .. package.path
local units = require "units"

local queue = opscript.OperationQueue.new()
local ops = {}
for i, fahrenheit in ipairs { 32, 50, 212 } do
  ops[i] = queue:addOperation(function() return units.celsius(fahrenheit) end)
end
queue:waitUntilAllOperationsAreFinished()

for _, op in ipairs(ops) do print(op.result) end
print("used here: " .. units.used)                           -- the workers have their own copies
