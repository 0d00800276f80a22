-- Runs random graphs of operations at home and on a cluster whose workers, server and network fail meanwhile, and compares what becomes of
-- each operation: `scripts/soak --cluster` and the tests of clusters.
--
--   opscript Tests/Soak/chaos.lua URL FOLDER SEED COUNT [LARGEST [SECONDS]]
--
-- Each graph has COUNT operations, whose largest values have LARGEST bytes. Graphs are made until SECONDS have passed, at least one. Operations
-- of the kind `once` are delivered at most once, and append their numbers to a file in FOLDER. Those of the kind `loose` are cancelled at
-- random moments. The same seed makes the same graphs. Prints `ready` when the cluster is about to be used, and a line for each graph.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local url, folder, seed, count = arg[1], arg[2], math.tointeger(arg[3]), math.tointeger(arg[4])
local largest, seconds = math.tointeger(arg[5]) or 2 << 20, tonumber(arg[6]) or 0
local priorities = { "veryLow", "low", "normal", "high", "veryHigh" }

-- A body's knowledge of its dependencies. Those with a random outcome have only finished.
local function combine(op, number)
  local sum = number
  for place, dependency in ipairs(op.dependencies) do
    assert(dependency.isFinished, "a dependency has not finished")
    if dependency.firm then
      local value = dependency.result
      if value then
        local text = dependency.results[2]
        sum = (sum * 31 + place * value + (text and #text + text:byte(#text) or 0)) % 2147483647
      elseif dependency.error then
        local length = dependency.error.kind == "dependency" and 1 or #dependency.error.message
        sum = (sum * 31 + length) % 2147483647
      end
    end
  end
  return sum
end

-- The functions of operations, by their kinds. Each gets the number of its operation and what it needs to be like others.
local kinds = {}

function kinds.plain(number) return function(op) return combine(op, number) end end

function kinds.large(number, context)
  local size, letter = context.random(largest // 20, largest), string.char(context.random(97, 122))
  return function(op) return combine(op, number), letter:rep(size) end
end

function kinds.captured(number, context)
  local text = context.large[context.random(1, #context.large)]
  return function(op) return (combine(op, number) + #text + text:byte(1)) % 2147483647 end
end

function kinds.sleeping(number, context)
  local pause = context.random(1, 30) / 1000
  return function(op)
    opscript.sleep(pause)
    return combine(op, number)
  end
end

function kinds.failing(number)
  return function(op)
    if number % 2 == 0 then error { code = combine(op, number) } end
    error("operation " .. number .. " fails")
  end
end

function kinds.storing(number)
  return function(op)
    op.stored = { combine(op, number), "stored" }
    return op.stored[1]
  end
end

function kinds.retried(number)
  return function(op)
    if op.attempt < 2 then error "once more" end
    return combine(op, number) + op.attempt
  end
end

function kinds.cancelled(number) return function() return number end end

function kinds.loose(number)
  return function(op)
    opscript.sleep(0.002)
    return combine(op, number)
  end
end

function kinds.once(number, context)
  local path = context.path
  return function()
    local file <close> = assert(io.open(path, "a"))
    file:write(number .. "\n")
    return number
  end
end

local names = {
  "plain", "plain", "plain", "plain", "plain", "plain", "captured", "sleeping", "sleeping", "failing", "storing", "retried", "cancelled",
  "loose", "loose", "once", "once",
}
local isLoose = { loose = true, once = true }

-- Makes the graph of a seed in two queues, waits, and returns what has become of each operation.
local function run(seed, many, once, path)
  -- A generator of its own: that of Lua chooses the moments of cancelling, which differ.
  local state = seed
  local context = { path = path, large = {} }
  function context.random(low, high)
    state = state * 6364136223846793005 + 1442695040888963407
    return low + (state >> 33) % (high - low + 1)
  end
  local random = context.random
  for i = 1, 4 do context.large[i] = string.char(96 + i):rep(random(largest // 20, largest // 2)) end

  local operations, kindOf, ends, loose, deliveredOnce = {}, {}, {}, {}, {}
  -- A graph that takes minutes says what it waits for.
  local nextTelling = opscript.now() + 120
  local function tellWhatWaits()
    if opscript.now() < nextTelling then return end
    nextTelling = opscript.now() + 60
    local told = 0
    for number, operation in ipairs(operations) do
      if told < 5 and operation.isReady and not operation.isFinished then
        told = told + 1
        print(("graph %d still waits: %s, %s"):format(seed, kindOf[number], operation:why() or operation.name .. " runs"))
      end
    end
    io.stdout:flush()
  end
  local function cancelSome()
    while #loose > 0 and math.random() < 0.5 do
      local operation = table.remove(loose, math.random(#loose))
      if math.random() < 0.5 then operation:cancel() end
    end
  end
  for number = 1, count do
    local name = random(1, 100) == 1 and "large" or names[random(1, #names)]
    local operation = Operation.new { name = "operation " .. number, main = kinds[name](number, context) }
    operation.firm = not isLoose[name]
    operation.queuePriority = priorities[random(1, 5)]
    operation.completionBlock = function() ends[number] = (ends[number] or 0) + 1 end
    if name == "retried" then operation.retry = 3 end
    local isFirm = true
    for _ = 1, random(0, 3) do
      local other = random(math.max(1, number - 60), number)
      if other < number then
        operation:addDependency(operations[other])
        isFirm = isFirm and operations[other].firm
      end
    end
    if random(1, 20) == 1 and name == "plain" and isFirm then operation.dependencyPolicy = "succeeded" end
    if name == "cancelled" then operation:cancel() end
    operations[number], kindOf[number] = operation, name
    ;(name == "once" and once or many):addOperation(operation)
    if name == "loose" then loose[#loose + 1] = operation end
    while number % 20 == 0 and many.operationCount + once.operationCount > 600 do
      opscript.sleep(0.005)
      tellWhatWaits()
      cancelSome()
    end
  end
  while many.operationCount + once.operationCount > 0 do
    opscript.sleep(0.005)
    tellWhatWaits()
    cancelSome()
  end
  OperationQueue.main:waitUntilAllOperationsAreFinished()

  local lines = {}
  for number, operation in ipairs(operations) do
    local name, error, text = kindOf[number], operation.error, operation.results and operation.results[2]
    assert(operation.isFinished and ends[number] == 1, operation.name .. " has ended " .. (ends[number] or 0) .. " times")
    local line = { number, name }
    if name == "loose" then
      assert(not error and (operation.result or operation.isCancelled), operation.name .. " " .. tostring(error))
    elseif name == "once" then
      assert(not operation.isCancelled and (operation.result or error and error.kind == "lost"), operation.name .. " " .. tostring(error))
      deliveredOnce[number] = error and "lost" or "succeeded"
    else
      local value = text and #text .. text:sub(1, 1) .. text:sub(-1) or operation.stored and operation.stored[1] .. operation.stored[2]
      local code = error and type(error.value) == "table" and error.value.code
      -- Which of several dependencies has failed first depends on chance.
      local message = error and error.kind ~= "dependency" and tostring(error)
      for _, part in ipairs {
        operation.isCancelled, tostring(operation.result), tostring(value), tostring(error and error.kind), tostring(message), tostring(code),
        operation.attempt,
      } do line[#line + 1] = tostring(part) end
    end
    lines[number] = table.concat(line, " ")
  end
  return lines, deliveredOnce
end

-- Checks that no operation that is delivered once began twice, and those that have succeeded did begin. Returns how many were lost.
local function check(path, deliveredOnce)
  local begun, lost = {}, 0
  local file = io.open(path)
  for line in file and file:lines() or function() end do
    local number = math.tointeger(line)
    assert(number and not begun[number], "began twice: operation " .. line)
    begun[number] = true
  end
  if file then file:close() end
  os.remove(path)
  for number, outcome in pairs(deliveredOnce) do
    if outcome == "lost" then lost = lost + 1 else assert(begun[number], "did not begin: operation " .. number) end
  end
  return lost
end

local start, round = opscript.now(), 0
local home = OperationQueue.new { cluster = false }
local many = OperationQueue.new { name = "many", cluster = url, maxDeliveries = 1000000 }
local once = OperationQueue.new { name = "once", cluster = url, delivery = "atMostOnce" }
repeat
  local path = folder .. "/round" .. round
  local expected, deliveredOnce = run(seed + round, home, home, path)
  assert(check(path, deliveredOnce) == 0)
  if round == 0 then print "ready" end
  io.stdout:flush()
  local began = opscript.now()
  local found
  found, deliveredOnce = run(seed + round, many, once, path)
  local lost = check(path, deliveredOnce)
  for number, line in ipairs(expected) do
    if line ~= found[number] then error("seed " .. seed + round .. ":\n  at home:    " .. line .. "\n  on cluster: " .. found[number], 0) end
  end
  round = round + 1
  print(("graph %d of seed %d: %d operations in %.1f s, %d lost that are delivered once"):format(round, seed, count, opscript.now() - began, lost))
  io.stdout:flush()
  expected, found, deliveredOnce = nil, nil, nil
  collectgarbage()
until opscript.now() - start >= seconds
print "ok"
