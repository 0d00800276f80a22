#!/usr/bin/env opscript
-- Tries again after a failure, with a pause that doubles, as long as the error is worth it.

local Operation = opscript.Operation
local queue = opscript.OperationQueue.new()

local function flaky(op, code)
  if op.attempt < 3 then error { code = code } end
  return "done"
end

local function isBusy(e) return e.value.code == "busy" end

local patient = Operation.new { main = flaky, arguments = { "busy" }, retry = { attempts = 5, delay = 0.01, backoff = 2, when = isBusy } }
local refused = Operation.new { main = flaky, arguments = { "forbidden" }, retry = { attempts = 5, delay = 0.01, backoff = 2, when = isBusy } }
queue:addOperations({ patient, refused }, true)

print(patient.result, patient.attempt .. " attempts", #patient.attempts .. " errors")
print(refused.error.value.code, refused.attempt .. " attempt")
