#!/usr/bin/env opscript
-- Runs programs at the same time. The first one that fails ends the others.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local commands = { { "sleep", "100" }, { "sh", "-c", "echo 'disk full' >&2; exit 3" }, { "sleep", "200" } }
local queue = OperationQueue.new { maxConcurrentOperationCount = #commands }
local ops, culprit = {}, nil
for i, command in ipairs(commands) do
  ops[i] = Operation.new { name = "command " .. i, main = function() opscript.run(command) end }
  ops[i].completionBlock = function(op)                      -- runs here, so it can use the variables around it
    if op.error and not culprit then
      culprit = op
      queue:cancelAllOperations()                            -- ends the programs that these operations have started
    end
  end
end

local start = opscript.now()
queue:addOperations(ops, true)
for _, op in ipairs(ops) do print(op) end
print(culprit.name .. " failed: " .. culprit.error.message)
print("within 50 seconds: " .. tostring(opscript.now() - start < 50))
