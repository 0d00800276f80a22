#!/usr/bin/env opscript
-- Bills customers, one after another. If `kill -9` or a power cut ends the batch, the next start continues with the remaining customers.

local Operation = opscript.Operation

local function bill(op, customer)
  -- For this example: the power fails while Cleo's bill is made.
  if customer == "Cleo" and os.getenv "POWER_FAILS" then
    os.execute("kill -9 " .. io.open("/proc/self/stat"):read "n")
  end
  print("  bill for " .. customer)
  return #customer * 10
end

local function batch(night)
  local queue = opscript.OperationQueue.new { name = "batch", maxConcurrentOperationCount = 1 }
  local bills = {}
  for i, customer in ipairs { "Ada", "Bob", "Cleo", "Dan", "Eve" } do
    -- The night is the version: tomorrow all customers get another bill.
    bills[i] = Operation.new { name = customer, memoize = true, version = night, main = bill, arguments = { customer } }
  end
  queue:addOperations(bills, true)
  local sum, skipped = 0, 0
  for _, op in ipairs(bills) do
    sum = sum + op.result
    if op.isSkipped then skipped = skipped + 1 end
  end
  print("  " .. sum .. " in " .. #bills .. " bills, " .. skipped .. " of them made before")
end

if arg[1] then return batch(arg[1]) end

-- Starts the batch as a separate process, as a timer of the system would.
local folder = opscript.fs.tempdir()
local function start(night, environment)
  local ended = opscript.process({ "/proc/self/exe", "--store", folder, arg[0], night, env = environment }):wait()
  print(night .. (ended.signal and ", ended by " .. ended.signal or ""))
  io.write(ended.stdout)
end
start("monday", { POWER_FAILS = "yes" })
start("monday")
start("monday")
start("tuesday")
