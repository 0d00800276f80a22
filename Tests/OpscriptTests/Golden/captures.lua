-- The values that would travel with a function, and those that cannot be sent.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local function show(title, f)
  print(title)
  for _, capture in ipairs(opscript.captures(f)) do
    print("  " .. capture.name, capture.of, capture.kind, capture.type, capture.size > 0 and "sized" or 0, capture.error or "")
  end
end

local insert, json = table.insert, string
local limit, names = 12, { "a", "b", list = { 1, 2, 3 } }
local op, queue = Operation.new(), OperationQueue.new()
local function helper(x) return x + limit end
function double(x) return helper(x) * 2 end

show("nothing", function() return print end)
show("values", function() return limit, names, undefined end)
show("modules and objects", function() return insert, json, op, queue end)
show("functions", function() return double(limit) end)

local file = io.tmpfile()
local thread = coroutine.create(print)
local mixed = { file, { deep = thread } }
conn = file
show("all that fails", function() return file, mixed, limit, conn, thread end)
show("a function that is none", function() return helper, function() return file end end)

-- Hostile values.
local deep = {}
for _ = 1, 100000 do deep = { deep } end
local cycle = {}
cycle.self = cycle
cycle[cycle] = cycle
show("depth and cycles", function() return deep, cycle end)
local raises = setmetatable({}, { __transfer = function() error("no transfer today", 0) end })
local yields = setmetatable({}, { __transfer = function() coroutine.yield() end })
local nothing = setmetatable({}, { __transfer = function() end })
local good = setmetatable({ 1 }, { __transfer = function(self) return setmetatable, { self[1] } end })
show("__transfer", function() return raises, yields, nothing, { good }, good, raises end)

-- The message is the same as that of addOperation.
local f = function() return mixed end
local _, message = pcall(queue.addOperation, queue, f)
print(message == opscript.captures(f)[1].error, message)
print(#opscript.captures(print), pcall(opscript.captures, 12))
-- A large value is counted where it is captured.
local large, small = ("x"):rep(100000), "x"
for _, capture in ipairs(opscript.captures(function() return large, small end)) do
  print(capture.name, capture.size > 100000)
end
