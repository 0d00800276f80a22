#!/usr/bin/env opscript
-- A service. Looks for jobs in a directory at regular intervals, does each of them once, and stops on request.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local fs = opscript.fs
local spool = fs.tempdir()
local function write(name, text) assert(fs.write(spool .. "/" .. name, text)) end

local jobs = OperationQueue.new { name = "jobs", maxConcurrentOperationCount = 4 }
local begun, finished = {}, {}
local stopped = Operation.new { name = "until stopped", asynchronous = true, main = function() end }
local clock

local function job(name)
  local op = Operation.new { name = name, retry = { attempts = 3, delay = 0.01 }, timeout = 10, main = function(op)
    local text = assert(fs.read(spool .. "/" .. name))
    if text == "busy" and op.attempt == 1 then error "the line is busy" end
    return text .. " done"
  end }
  op.completionBlock = function()
    fs.remove(spool .. "/" .. name)
    finished[#finished + 1] = ("%s: %s, attempts: %d"):format(name, op.result or op.error.message, op.attempt)
  end
  return op
end

-- Looks at the directory once. Begins each job once, however long the job takes.
local looks = OperationQueue.new { name = "looks", maxConcurrentOperationCount = 1 }
local function look()
  if looks.operationCount > 0 then return end                -- the previous look has not finished
  local op = Operation.new { name = "look", main = function() return fs.glob(spool .. "/*") end }
  op.completionBlock = function()
    for _, path in ipairs(op.result) do
      local name = path:match "[^/]+$"
      if name == "stop" then
        clock:cancel()
        stopped:finish()
      elseif not begun[name] then
        begun[name] = true
        jobs:addOperation(job(name))
      end
    end
  end
  looks:addOperation(op)
end

clock = opscript.every(0.02, look)
write("mail", "mail")
write("backup", "busy")
opscript.after(0.1, function() write("report", "report") write("stop", "") end)

OperationQueue.new():addOperation(stopped):waitUntilFinished()
jobs:waitUntilAllOperationsAreFinished()
table.sort(finished)
print(table.concat(finished, "\n"))
