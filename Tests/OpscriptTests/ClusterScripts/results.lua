-- Results, stored fields and values of all kinds.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "results"
local function run(f, ...)
  local op = queue:addOperation(f, ...)
  op:waitUntilFinished()
  if op.error then return "error", op.error.message end
  return table.unpack(op.results, 1, op.results.n)
end

print(run(function() end))
print(run(function() return nil, nil end))
print(run(function() return 1, 2.5, -0.0, 1 / 0, math.mininteger, "text", "with\0zero", true, nil end))
print(run(function(op, a, b, c) return c, b, a end, 1, nil, "three"))
local text = ("long"):rep(100000)
print(#run(function() return text .. text end), #run(function(_, given) return given end, text))

local shared = { list = { 1, 2, 3 }, name = "shared" }
shared.self = shared
local class = {}
class.__index = class
function class:double() return self.n * 2 end
local object = setmetatable({ n = 21 }, class)
local function counter()
  local count = 0
  return function() count = count + 1 return count end
end
local next = counter()
next()
local result = run(function()
  return { shared.self == shared and shared.self.self.name, object:double(), getmetatable(object) == class, next(), next() }
end)
print(table.unpack(result, 1, 5))
print(next())
local made, double = run(function() local n = 5 return function(k) n = n + k return n end, object end)
print(made(1), made(2), double:double(), getmetatable(double) == class)

local op = Operation.new { name = "storing", main = function(op)
  op.list, op.text = { op.before.n, 2 }, "stored"
  op.before = nil
  op.seen = op.name .. " " .. tostring(op.isExecuting) .. " " .. tostring(Operation.current == op)
end }
op.before = { n = 1 }
queue:addOperation(op):waitUntilFinished()
print(op.list[1], op.list[2], op.text, op.before, op.seen)
print(run(function(op) return op.queuePriority, OperationQueue.current and OperationQueue.current.name, op.attempt end))
print(run(function(op) return op end) ~= nil)
print(run(function() return coroutine.create(print) end))
print(io.type(run(function() return io.stdout end)))
local deep = {}
for _ = 1, 150 do deep = { deep } end
print(run(function() local n, t = 0, deep while t[1] do n, t = n + 1, t[1] end return n end))

local frozen = opscript.freeze { 1, 2.5, "three", nested = { true, list = opscript.freeze { "inner" } }, f = function(n) return n * 2 end, lib = math }
print(run(function()
  return #frozen, frozen[3], frozen.nested.list[1], frozen.f(21), frozen.lib == math, opscript.isFrozen(frozen.nested), pcall(function() frozen.x = 1 end)
end))
local copy = run(function() return opscript.freeze { frozen, key = { 1 } } end)
print(opscript.isFrozen(copy), copy[1][2], copy[1].f(4), copy.key[1], #opscript.thaw(copy))
print(opscript.isFrozen(run(function(_, given) return given end, frozen)))
