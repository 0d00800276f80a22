-- The workloads of workloads.py with operations: `opscript --cluster URL ours.lua WORKLOAD COUNT [BODIES]`. Without `--cluster` it prints
-- the figures of this machine's own workers.
--
-- BODIES is the number of rounds of the loop of `busy`; `calibrate COUNT` prints the number that takes 20 ms. For `sleep`, BODIES is the number
-- of bodies that may sleep at once: without a cluster, other operations run meanwhile.
local opscript = require "opscript"

local body, workers, repetitions = 0.02, 2, 3
local workload, count, bodies = arg[1], assert(math.tointeger(arg[2])), math.tointeger(arg[3])
local queue = opscript.OperationQueue.new { name = "bench" }

local function empty() end

local function busy(op, times)
  local sum = 0
  for i = 1, times do sum = sum + i % 7 end
  return sum
end

local function sleep() opscript.sleep(body) end

local function elapsed(f, ...)
  local start = opscript.now()
  f(...)
  return opscript.now() - start
end

local function succeeded(op)
  if op.error then error(tostring(op.error), 0) end
  return op.result
end

-- Runs a body on the workers, and reads all results.
local function run(main, times, ...)
  local operations = {}
  for i = 1, times do operations[i] = queue:addOperation(main, ...) end
  queue:waitUntilAllOperationsAreFinished()
  for _, op in ipairs(operations) do succeeded(op) end
end

local function json(figures)
  local fields = {}
  for name, value in pairs(figures) do fields[#fields + 1] = ('"%s": %.17g'):format(name, value) end
  print("{" .. table.concat(fields, ", ") .. "}")
end

local workloads = {}

-- In the fastest of many tries, the processor did nothing else.
function workloads.calibrate()
  local times, shortest = 200000, math.huge
  for _ = 1, count do shortest = math.min(shortest, elapsed(busy, nil, times)) end
  print(math.floor(times * body / shortest))
end

function workloads.empty()
  run(empty, count // 10)
  json { rate = count / elapsed(run, empty, count) }
end

function workloads.latency()
  local times = {}
  for i = 1, count do times[i] = elapsed(run, empty, 1) * 1e3 end
  table.sort(times)
  json { p50 = times[count // 2 + 1], p99 = times[count * 99 // 100 + 1] }
end

function workloads.busy()
  json { ideal = count * body / workers / elapsed(run, busy, count, bodies) }
end

function workloads.sleep()
  if bodies then queue.maxConcurrentOperationCount = bodies end
  json { ideal = count * body / workers / elapsed(run, sleep, count) }
end

function workloads.argument()
  local total = 0
  local random <close> = assert(io.open("/dev/urandom", "rb"))
  for _ = 1, repetitions do
    local data = random:read(count * 1000000)
    local start = opscript.now()
    local op = queue:addOperation(function(op, data) return #data end, data)
    op:waitUntilFinished()
    total = total + opscript.now() - start
    assert(succeeded(op) == #data)
  end
  json { rate = repetitions * count / total }
end

-- Before the measurement, the workers connect and load what they need. Workers fetch more tasks in advance after short bodies, so long bodies
-- do not follow empty ones.
if workload == "busy" then
  run(busy, 10, bodies)
elseif workload == "sleep" then
  run(sleep, 10)
elseif workload ~= "calibrate" then
  run(empty, 100)
end
workloads[workload]()
