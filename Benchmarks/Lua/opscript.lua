-- The workloads of scripts. `opscript opscript.lua WORKLOAD COUNT` prints the value and the processor time per operation in nanoseconds.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local function seconds(f)
  local start = opscript.now()
  f()
  return opscript.now() - start
end

local function rows()
  local rows = {}
  for i = 1, 10000 do rows[i] = { id = i, name = "row " .. i, score = i / 3 } end
  return rows
end

-- Sends a value to a worker and back `count` times; returns microseconds per exchange.
local function exchange(value, count)
  return seconds(function()
    for _ = 1, count do
      local operation = Operation.new(function(_, sent) return sent end, value)
      queue:addOperation(operation)
      operation:waitUntilFinished()
      assert(#operation.result == #value)
    end
  end) / count * 1e6
end

local workloads = {}

-- Each operation has a closure and a handle, and its completion block counts it in the main state.
function workloads.L1(count)
  return seconds(function()
    local finished = 0
    for i = 1, count do
      local operation = Operation.new(function() return i end)
      operation.completionBlock = function() finished = finished + 1 end
      queue:addOperation(operation)
    end
    queue:waitUntilAllOperationsAreFinished()
    while finished < count do opscript.sleep(0) end
  end) / count * 1e9
end

-- Uses the same function each time and keeps no operation.
function workloads.L1f(count)
  local function body() end
  return seconds(function()
    for _ = 1, count do queue:addOperation(body) end
    queue:waitUntilAllOperationsAreFinished()
  end) / count * 1e9
end

-- Returns the median of `count` exchanges.
local function ping(count)
  local times = {}
  for i = 1, count do
    times[i] = seconds(function()
      local operation = Operation.new(function() end)
      queue:addOperation(operation)
      operation:waitUntilFinished()
    end)
  end
  table.sort(times)
  return times[(count + 1) // 2] * 1e6
end

workloads.L5 = ping

-- Takes about a microsecond.
local function compute(x)
  local sum = x
  for i = 1, 340 do sum = sum + i end
  return sum
end

local function numbers(count)
  local list = {}
  for i = 1, count do list[i] = i end
  return list
end

-- Maps a function over a table: nanoseconds an input.
local function map(f, count)
  local list = numbers(count)
  return seconds(function()
    local sum = 0
    for _, x in queue:map(f, list) do sum = sum + x end
    assert(sum > 0)
  end) / count * 1e9
end

function workloads.L6(count) return map(compute, count) end

-- The same without operations.
workloads["L6-loop"] = function(count)
  local list = numbers(count)
  return seconds(function()
    local sum = 0
    for _, x in ipairs(list) do sum = sum + compute(x) end
    assert(sum > 0)
  end) / count * 1e9
end

workloads["L6-reduce"] = function(count)
  local list = numbers(count)
  return seconds(function() assert(queue:reduce(compute, function(a, b) return a + b end, list) > 0) end) / count * 1e9
end

-- Only the costs of the map.
function workloads.L7(count) return map(function(x) return x end, count) end

-- The workloads of groups and of exclusion, and plain operations to compare them with: nanoseconds an operation. Each has a second form, "-work",
-- whose bodies take about ten microseconds.
local bodies = {
  [""] = function() end,
  ["-work"] = function()
    for i = 1, 10 do compute(i) end
  end,
}
local serial = OperationQueue.new { maxConcurrentOperationCount = 1 }

-- `make` makes each operation from its number.
local function flood(count, in_queue, make)
  return seconds(function()
    for i = 1, count do in_queue:addOperation(make(i)) end
    in_queue:waitUntilAllOperationsAreFinished()
  end) / count * 1e9
end

local function grouped(count, size, body)
  return flood(count // size, queue, function()
    local members = {}
    for i = 1, size do members[i] = Operation.new { main = body } end
    return opscript.GroupOperation.new { operations = members }
  end) / size
end

for form, body in pairs(bodies) do
  local function plain() return Operation.new { main = body } end
  workloads["plain" .. form] = function(count) return flood(count, queue, plain) end
  workloads["serial" .. form] = function(count) return flood(count, serial, plain) end
  workloads["G10" .. form] = function(count) return grouped(count, 10, body) end
  workloads["G100" .. form] = function(count) return grouped(count, 100, body) end
  -- Keys that no other operation holds, and operations without keys. Both keep the strings, because many strings slow down all work of a state.
  local function keys(count)
    local keys = {}
    for i = 1, count do keys[i] = "key " .. i end
    return keys
  end
  workloads["X" .. form] = function(count)
    local keys = keys(count)
    return flood(count, queue, function(i) return Operation.new { main = body, exclusive = keys[i] } end)
  end
  workloads["keyless" .. form] = function(count)
    local keys = keys(count)
    return flood(count, queue, function(i) return keys[i] and plain() end)
  end
  -- One key for all.
  workloads["X1" .. form] = function(count)
    return flood(count, queue, function() return Operation.new { main = body, exclusive = "key" } end)
  end
end

-- Sends `count` values through a channel from an operation to another one, or to the main state: nanoseconds a value.
local function stream(count, capacity, value, isMain)
  local channel = opscript.channel { capacity = capacity }
  local function receive()
    local received = 0
    for _ in channel do received = received + 1 end
    return received
  end
  return seconds(function()
    queue:addOperation(function()
      for i = 1, count do channel:send(value or i) end
      channel:close()
    end)
    if isMain then
      assert(receive() == count)
    else
      local consumer = queue:addOperation(receive)
      consumer:waitUntilFinished()
      assert(consumer.result == count)
    end
  end) / count * 1e9
end

function workloads.C1(count) return stream(count, 1000) end
workloads["C1-main"] = function(count) return stream(count, 1000, nil, true) end
workloads["C1-row"] = function(count) return stream(count, 1000, { id = 1, name = "row 1", score = 0.5 }) end
workloads["C1-one"] = function(count) return stream(count, 1) end

-- Reads fields of a table that all states share, or of an ordinary one: nanoseconds a field.
local function read(t, count)
  return seconds(function()
    local sum = 0
    for _ = 1, count // 4 do sum = sum + t.width + t.height + t.depth + t[1] end
    assert(sum > 0)
  end) / count * 1e9
end

local settings = { 5, 6, 7, width = 1, height = 2, depth = 3, name = "settings", list = { 1, 2 } }
function workloads.F1(count) return read(opscript.freeze(settings), count) end
workloads["F1-table"] = function(count) return read(settings, count) end

-- Measures exchanges while `count` operations with completion blocks wait. Half of them set their block after they were added.
workloads["L5-waiting"] = function(count)
  local waiting = OperationQueue.new { isSuspended = true }
  for i = 1, count do
    local operation = Operation.new(function() end)
    if i % 2 == 0 then waiting:addOperation(operation) end
    operation.completionBlock = function() end
    if i % 2 == 1 then waiting:addOperation(operation) end
  end
  local microseconds = ping(1000)
  waiting.isSuspended = false
  waiting:waitUntilAllOperationsAreFinished()
  return microseconds
end

function workloads.T1(count) return exchange(("x"):rep(1000000), count) end
function workloads.T2(count) return exchange(rows(), count) / 1000 end

-- The memory in bytes of a waiting operation, and of a finished one whose handle is kept. Both include the collector's share.
local function resident()
  collectgarbage()
  local file <close> = assert(io.open("/proc/self/statm"))
  return tonumber(file:read("a"):match("^%d+ (%d+)")) * 4096
end

workloads["M-waiting"] = function(count)
  queue.isSuspended = true
  local before = resident()
  local function body() end
  for _ = 1, count do queue:addOperation(body) end
  local bytes = (resident() - before) / count
  queue:cancelAllOperations()
  queue.isSuspended = false
  queue:waitUntilAllOperationsAreFinished()
  return bytes
end

workloads["M-finished"] = function(count)
  local before, kept = resident(), {}
  local function body() end
  for i = 1, count do kept[i] = queue:addOperation(body) end
  queue:waitUntilAllOperationsAreFinished()
  return (resident() - before) / #kept
end

local workload, count = workloads[arg[1]], tonumber(arg[2])
if not workload then os.exit(3) end
workload(math.max(1, count // 10))
local start = os.clock()
local value = workload(count)
print(value, (os.clock() - start) / count * 1e9)
