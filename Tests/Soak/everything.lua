-- Uses all features of scripts at once, from several states, again and again: `scripts/soak --lua SECONDS`.
--
--   opscript Tests/Soak/everything.lua SECONDS [SEED [WITHOUT...]]
--
-- Each round starts random jobs, some in operations of their own and some in the main state, and waits for all. Each job checks its
-- results. Memory must stay at the level of the first rounds. WITHOUT names what to leave out: `memory` (the check of memory) or
-- `stop` (interruptions: under ThreadSanitizer, Lua receives no signals).
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local seconds = tonumber(arg[1]) or 10
local seed = math.tointeger(arg[2]) or os.time()
local without = {}
for i = 3, #arg do without[arg[i]] = true end

local function finished(operation)
  operation:waitUntilFinished()
  if operation.error then error(operation.error.message, 0) end
  return operation.result
end

local function endless() while true do end end

-- The jobs. Each can run in any state, and raises an error when a result is wrong.
local jobs = {}

function jobs.graph(queue, random)
  local operations, sum = {}, 0
  for i = 1, random(2, 20) do
    local operation = Operation.new(function(_, value)
      local total = value
      for j = 1, i - 1 do total = total + (operations[j].isFinished and 0 or 1 << 40) end
      return total
    end, i)
    operations[i], sum = operation, sum + i
  end
  for i = 2, #operations do
    for j = 1, i - 1 do operations[i]:addDependency(operations[j]) end
  end
  for _, operation in ipairs(operations) do operation.queuePriority = ({ "low", "normal", "high" })[random(3)] end
  queue:addOperations(operations, true)
  local total = 0
  for _, operation in ipairs(operations) do total = total + operation.result end
  assert(total == sum)
end

function jobs.sending(queue, random)
  local shared = { n = random(1000), text = ("x"):rep(random(2000)) }
  shared.self = shared
  local count = 0
  local function add(k) count = count + k return count end
  local class = {}
  class.__transfer = function(self) return function(n) return setmetatable({ n = n }, class) end, self.n end
  local object = setmetatable({ n = 5 }, class)
  local t, f, o = finished(queue:addOperation(function(_, again)
    assert(again == shared and getmetatable(object) == class)
    return { shared, add, object }
  end, shared)), nil, nil
  t, f, o = t[1], t[2], t[3]
  assert(t ~= shared and t.self == t and t.n == shared.n and t.text == shared.text and f(2) == 2 and f(3) == 5 and count == 0)
  assert(o.n == 5)
end

function jobs.nested(queue, random)
  local depth = random(1, 6)
  local function go(n)
    if n == 0 then return 0 end
    local inner = opscript.OperationQueue.new():addOperation(function() return go(n - 1) end)
    inner:waitUntilFinished()
    return inner.result + 1
  end
  assert(finished(queue:addOperation(go and function() return go(depth) end)) == depth)
end

function jobs.errors(queue, random)
  local operation = queue:addOperation(function() error { code = 7 } end)
  local dependent = Operation.new { main = function() return 1 end, dependencyPolicy = "succeeded", dependencies = { operation } }
  queue:addOperation(dependent)
  dependent:waitUntilFinished()
  assert(operation.error.value.code == 7 and operation.error.kind == "error" and operation.result == nil)
  assert(dependent.isCancelled and dependent.error.kind == "dependency")
  assert(not pcall(queue.addOperation, queue, operation) and not pcall(operation.addDependency, operation, operation))
  assert(not pcall(queue.addOperation, queue, coroutine.wrap(print), coroutine.create(print)))
end

function jobs.cancelling(queue, random)
  queue.isSuspended = true
  local list = {}
  for i = 1, random(2, 10) do list[i] = Operation.new(function(op) while not op.isCancelled do opscript.sleep(10) end end) end
  queue:addOperations(list, false)
  for i = 1, #list // 2 do list[i]:cancel() end
  queue.isSuspended = false
  queue:cancelAllOperations()
  queue:waitUntilAllOperationsAreFinished()
  for _, operation in ipairs(list) do assert(operation.isFinished and operation.isCancelled) end
end

function jobs.callbacks(queue, random)
  local completed, expected = {}, random(1, 8)
  for i = 1, expected do
    local operation = Operation.new(function() return i end)
    operation.completionBlock = function(op) completed[#completed + 1] = op.result end
    queue:addOperation(operation)
  end
  queue:waitUntilAllOperationsAreFinished()
  assert(#completed == expected)
end

function jobs.barrier(queue, random)
  local log = Operation.new(function() end)
  log.count = 0
  local operations = {}
  for i = 1, random(1, 6) do operations[i] = queue:addOperation(function() return opscript.now() end) end
  queue:addBarrierBlock(function() log.count = 1 end)
  local after = queue:addOperation(function() return log.count end)
  assert(finished(after) == 1)
  for _, operation in ipairs(operations) do assert(operation.isFinished) end
end

function jobs.mainQueue(_, random)
  local value = random(100)
  local operation = OperationQueue.main:addOperation(function(_, v) served = (served or 0) + 1 return v end, value)
  assert(finished(operation) == value)
end

function jobs.storage(queue, random)
  local operation = Operation.new(function(op) op.list = { op.begin, { op } } return op.list[2][1] == op end)
  operation.begin = random(100)
  queue:addOperation(operation)
  assert(finished(operation) and operation.list[1] == operation.begin and operation.list[2][1] == operation)
end

function jobs.readiness(queue, random)
  local operation = Operation.new { main = function() return 1 end, name = "held", qualityOfService = "utility" }
  operation.isReady = false
  queue:addOperation(operation)
  assert(not operation.isFinished and operation:why():find "held" and tostring(operation):find "held")
  operation.isReady = true
  assert(finished(operation) == 1 and queue.operationCount <= 1 and queue.progress.totalUnitCount >= 0)
end

function jobs.memory(queue, random)
  local operation = Operation.new { main = function() local t = {} while true do t[#t + 1] = {} end end, memoryLimit = 1 << 20 }
  queue:addOperation(operation)
  operation:waitUntilFinished()
  assert(operation.error.kind == "memory")
end

function jobs.interrupting(queue, random)
  if without.stop then return end
  local begun = opscript.channel()
  local operation = queue:addOperation(function()
    begun:send(true)
    coroutine.wrap(function() pcall(endless) end)()
  end)
  begun:receive()  -- needs no worker: all workers may be in such a loop
  operation:interrupt()
  operation:waitUntilFinished()
  assert(operation.isCancelled and operation.error.kind == "interrupted")
end

function jobs.choosing(queue)
  local a, b = opscript.channel { capacity = 1 }, opscript.channel { capacity = 1 }
  queue:addOperation(function()
    for i = 1, 10 do opscript.select { { a, i }, { b, i } } end
    a:close()
    b:close()
  end)
  local sum = 0
  for _, n in opscript.merge { a = a, b = b } do sum = sum + n end
  assert(sum == 55)
end

function jobs.timers(_, random)
  local fired, first = opscript.channel(), opscript.channel()
  local timer = opscript.every(0.0005, function() fired:trySend(true) end)
  local once = opscript.after(0.0005, function() first:send(true) end)
  local never = opscript.after(100, error)
  for _ = 1, 2 do fired:receive() end
  first:receive()
  timer:cancel()
  once:cancel()
  never:cancel()
end

function jobs.observing(queue, random)
  local log, seen, told = {}, 0, opscript.channel()
  local operation = Operation.new { name = "observed", main = function(op) for i = 1, 5 do op.step = i end end }
  operation:observe("isFinished", { "new" }, function(op, change)
    log[#log + 1] = change.new == true and op == operation
    told:send(true)
  end)
  operation:observe("step", { "new", "old" }, function(_, change)
    seen = seen + 1
    assert(change.new == seen and (change.old or 0) == seen - 1)
    told:send(true)
  end)
  local token = operation:observe("name", error)
  token:invalidate()
  operation.name = "renamed"
  queue:observe("operationCount", function() end)
  queue:addOperation(operation)
  operation:waitUntilFinished()
  for _ = 1, 6 do told:receive() end
  assert(#log == 1 and log[1])
end

function jobs.processes(queue, random)
  local text = ("x"):rep(random(100000))
  local operation = queue:addOperation(function() return opscript.sh { "cat; echo error >&2; exit 3", input = text }:wait() end)
  local result = finished(operation)
  assert(result.status == 3 and result.stdout == text and result.stderr == "error\n" and not result.signal)
  local sleeper = opscript.process { "sleep", "100" }
  sleeper:kill "KILL"
  assert(sleeper:wait().signal == "KILL" and not sleeper.isRunning)
  local waiting = queue:addOperation(function() return opscript.process { "sleep", "100" }:wait() end)
  waiting:cancel()
  waiting:waitUntilFinished()
  assert(not pcall(opscript.process, { "no-such-program-anywhere" }))
end

function jobs.timeouts(queue, random)
  local slow = Operation.new { main = function() opscript.sleep(100) end, timeout = 0.005 }
  queue:addOperation(slow)
  slow:waitUntilFinished()
  assert(slow.isCancelled and slow.error.kind == "timeout")
  if without.stop then return end
  local stuck = Operation.new { main = function() pcall(endless) end, timeout = 0.005 }
  queue:addOperation(stuck)
  stuck:waitUntilFinished()
  assert(stuck.error.kind == "timeout")
end

function jobs.asynchronous(queue, random)
  local sent = opscript.channel()
  local request = Operation.new { asynchronous = true, main = function() sent:send(true) end }
  queue:addOperation(request)
  local answerer = OperationQueue.new():addOperation(function()
    sent:receive()
    request:finish("answer", { 1 })
  end)
  assert(finished(request) == "answer" and request.results[2][1] == 1)
  finished(answerer)
  local failing = Operation.new { asynchronous = true, main = function(op) op:fail "refused" end }
  queue:addOperation(failing)
  failing:waitUntilFinished()
  assert(failing.error.value == "refused")
end

function jobs.blocks(queue, random)
  local operation, count = opscript.BlockOperation.new(function() return 1 end), random(1, 6)
  for i = 2, count do operation:addExecutionBlock(function(_, k) return k end, i) end
  queue:addOperation(operation)
  operation:waitUntilFinished()
  assert(operation.executionBlocks == count and #operation.results == count and operation.results[count] == count)
  local account = { balance = random(100), add = function(self, n) return self.balance + n end }
  assert(finished(queue:addOperation(opscript.InvocationOperation.new(account, "add", 5))) == account.balance + 5)
end

function jobs.groups(queue, random)
  local count, depth = random(1, 6), random(0, 20)
  local group = opscript.GroupOperation.new { operations = { function(op, ...) return 1, ... end } }
  local function more(op, k)
    if k < count then op.group:addOperation(more, k + 1) end
    return k
  end
  if count > 1 then group:addOperation(more, 2) end
  local outer = group
  for _ = 1, depth do outer = opscript.GroupOperation.new { maxConcurrentOperationCount = 1, operations = { outer } } end
  queue:addOperation(outer)
  outer:waitUntilFinished()
  assert(group.isFinished and group.results.n == count and group.results[count] == count and not outer.error)
  local cancelled = opscript.GroupOperation.new { operations = { endless, endless } }
  queue:addOperation(cancelled)
  cancelled:interrupt()
  cancelled:waitUntilFinished()
  assert(cancelled.isCancelled and cancelled.operations[2].isCancelled)
end

local Shape = Operation:subclass "Shape"
function Shape:init(side) self.side = side end
function Shape:area() return 0 end
function Shape:main() return self:area(), self:isKindOf(Shape) end
local Square = Shape:subclass "Square"
function Square:area() return self.side * self.side end

function jobs.subclasses(queue, random)
  local square = Square.new(random(100))
  queue:addOperation(square)
  assert(finished(square) == square.side ^ 2 and square.results[2] and square:isKindOf(Shape))
end

function jobs.captures(_, random)
  local value = { random(100) }
  local names = {}
  for _, record in ipairs(opscript.captures(function() return value, run end)) do names[#names + 1] = record.name end
  assert(table.concat(names, " "):find "value")
end

local names = {}
for name in pairs(jobs) do names[#names + 1] = name end
table.sort(names)

local function run(name, seed)
  -- A generator of the job's own: `math.random` belongs to the state.
  local state = seed
  local function random(low, high)
    if not high then low, high = 1, low end
    state = (state * 6364136223846793005 + 1442695040888963407)
    return low + (state >> 33) % (high - low + 1)
  end
  local queue = OperationQueue.new { name = name, maxConcurrentOperationCount = random(1, 4) }
  jobs[name](queue, random)
end

-- Memory ---------------------------------------------------------------------------------------------------------------

-- The number of bytes that the main state and the process hold.
local function memory()
  collectgarbage()
  collectgarbage()
  local file <close> = assert(io.open "/proc/self/statm")
  local _, resident = file:read("n", "n")
  return collectgarbage "count" * 1024, resident * 4096
end

-- The whole ------------------------------------------------------------------------------------------------------------

io.stderr:write("soak: seed ", seed, "\n")
math.randomseed(seed)
local outer = OperationQueue.new { name = "jobs", maxConcurrentOperationCount = 6 }
local started, rounds, count = opscript.now(), 0, 0
local heldBefore, residentBefore

while opscript.now() - started < seconds or rounds < 40 do
  local running = {}
  for i = 1, math.random(1, 8) do
    local name = names[math.random(#names)]
    running[i] = Operation.new { main = function(_, ...) run(...) end, arguments = { name, math.random(0) }, name = name }
  end
  outer:addOperations(running, false)
  local name = names[math.random(#names)]
  local ok, message = pcall(run, name, math.random(0))
  outer:waitUntilAllOperationsAreFinished()
  for _, operation in ipairs(running) do
    if operation.error then ok, name, message = false, operation.name, operation.error.message .. "\n" .. operation.error.traceback end
  end
  if not ok then
    io.stderr:write("soak: ", name, ", round ", rounds, " of seed ", seed, ": ", tostring(message), "\n")
    os.exit(1)
  end
  rounds, count = rounds + 1, count + #running + 1
  -- After a third of the time every worker has run every job.
  if not heldBefore and rounds >= 20 and opscript.now() - started > seconds / 3 then heldBefore, residentBefore = memory() end
end

local held, resident = memory()
if not without.memory then
  local grownHeld, grownResident = held - heldBefore, resident - residentBefore
  -- A state caches its compiled code, some megabytes, and discards it when the cache is full. There are some dozen workers.
  if grownHeld > 4 * 1024 * 1024 or grownResident > 192 * 1024 * 1024 then
    io.stderr:write("soak: memory has grown: the main state by ", grownHeld, " bytes, the process by ", grownResident, "\n")
    os.exit(1)
  end
end
print("ok")
io.stderr:write(string.format("soak: %d jobs in %d rounds; %.1f MiB\n", count, rounds, resident / 1048576))
