-- Runs a random graph of operations, and prints what has become of each: `scripts/soak --cluster` and the tests of clusters run it at home
-- and on a cluster whose workers, server and network fail, and compare.
--
--   opscript Tests/Soak/chaos.lua SEED COUNT URL|home [FILE [LARGEST]]
--
-- Operations of the kind `once` are delivered at most once, and append their numbers to FILE. LARGEST is the number of bytes of the largest
-- values. The same seed and count make the same graph. Lines that begin with `~` are about operations that chance may cancel or lose.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local seed, count, url, file = math.tointeger(arg[1]), math.tointeger(arg[2]), arg[3], arg[4]
local largest = math.tointeger(arg[5]) or 2 << 20
local isAtHome = url == "home"
math.randomseed(seed)
-- Lua's own generator also serves the moments of cancelling, which differ from run to run: the graph has one of its own.
local state = seed
local function random(low, high)
  state = (state * 6364136223846793005 + 1442695040888963407)
  return low + (state >> 33) % (high - low + 1)
end

local many = OperationQueue.new { name = "many", cluster = not isAtHome and url, maxDeliveries = 1000000 }
local once = OperationQueue.new { name = "once", cluster = not isAtHome and url, delivery = "atMostOnce" }
local priorities = { "veryLow", "low", "normal", "high", "veryHigh" }
local large = {}
for i = 1, 4 do large[i] = (string.char(96 + i)):rep(random(largest // 20, largest // 2)) end

-- What a body can know of its dependencies. Those whose outcome chance decides have finished, and that is all.
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
        sum = (sum * 31 + #dependency.error.message) % 2147483647
      end
    end
  end
  return sum
end

local kinds = {}
function kinds.plain(number) return function(op) return combine(op, number) end end
function kinds.large(number)
  local size, letter = random(largest // 20, largest), string.char(random(97, 122))
  return function(op) return combine(op, number), letter:rep(size) end
end
function kinds.captured(number)
  local text = large[random(1, #large)]
  return function(op) return (combine(op, number) + #text + text:byte(1)) % 2147483647 end
end
function kinds.sleeping(number)
  local seconds = random(1, 30) / 1000
  return function(op) opscript.sleep(seconds) return combine(op, number) end
end
function kinds.failing(number)
  return function(op)
    combine(op, number)
    if number % 2 == 0 then error { code = number } end
    error("operation " .. number .. " fails")
  end
end
function kinds.storing(number)
  return function(op) op.stored = { combine(op, number), "stored" } return op.stored[1] end
end
function kinds.printing(number)
  return function(op) io.stderr:write("") return combine(op, number) end
end
function kinds.cancelled(number) return function() return number end end
function kinds.loose(number) return function(op) opscript.sleep(0.002) return combine(op, number) end end
function kinds.once(number)
  return function()
    local out = assert(io.open(file, "a"))
    out:write(number .. "\n")
    out:close()
    return number
  end
end
local names = {
  "plain", "plain", "plain", "plain", "plain", "plain", "captured", "sleeping", "sleeping", "failing", "storing", "printing", "cancelled",
  "loose", "loose", "once", "once",
}
local isFirm = { loose = false, once = false }

local operations, kindOf, ends, loose = {}, {}, {}, {}
local function cancelSome()
  while #loose > 0 and math.random() < 0.5 do
    local operation = table.remove(loose, math.random(#loose))
    if math.random() < 0.5 then operation:cancel() end
  end
end
for number = 1, count do
  local name = random(1, 100) == 1 and "large" or names[random(1, #names)]
  local operation = Operation.new { name = "operation " .. number, main = kinds[name](number) }
  operation.firm = isFirm[name] ~= false
  operation.queuePriority = priorities[random(1, 5)]
  operation.completionBlock = function() ends[number] = (ends[number] or 0) + 1 end
  for _ = 1, random(0, 3) do
    local other = random(math.max(1, number - 60), number)
    if other < number then operation:addDependency(operations[other]) end
  end
  if random(1, 20) == 1 and name == "plain" then
    local isSafe = true
    for _, dependency in ipairs(operation.dependencies) do isSafe = isSafe and dependency.firm end
    if isSafe then operation.dependencyPolicy = "succeeded" end
  end
  if name == "cancelled" then operation:cancel() end
  operations[number], kindOf[number] = operation, name
  ;(name == "once" and once or many):addOperation(operation)
  if name == "loose" then loose[#loose + 1] = operation end
  if number % 20 == 0 then
    cancelSome()
    while many.operationCount + once.operationCount > 600 do
      opscript.sleep(0.005)
      cancelSome()
    end
  end
end
while many.operationCount + once.operationCount > 0 do
  opscript.sleep(0.005)
  cancelSome()
end
OperationQueue.main:waitUntilAllOperationsAreFinished()

for number, operation in ipairs(operations) do
  local name, error = kindOf[number], operation.error
  local text = operation.results and operation.results[2]
  local value = text and #text .. text:sub(1, 1) .. text:sub(-1) or operation.stored and operation.stored[1] .. operation.stored[2] or ""
  local outcome = operation.isCancelled and "cancelled" or error and "failed" or "succeeded"
  if name == "loose" then
    -- Chance decides whether it was cancelled, and not what it returns.
    assert(not error and (operation.result or operation.isCancelled), operation.name)
    print("~" .. number, name, ends[number], operation.isFinished)
  elseif name == "once" then
    print("~" .. number, name, ends[number], operation.isFinished, outcome, error and error.kind)
  else
    local code = error and type(error.value) == "table" and error.value.code
    print(number, name, ends[number], operation.isFinished, outcome, operation.result, value, error and error.kind, error and error.message, code)
  end
end
