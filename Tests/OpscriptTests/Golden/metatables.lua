-- Metatables travel by value. `__transfer` decides how an object travels.
local queue = opscript.OperationQueue.new()
local function run(...)
  local op = queue:addOperation(...)
  op:waitUntilFinished()
  if op.error then return "error", op.error.message end
  return table.unpack(op.results, 1, op.results.n)
end

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ x = a.x + b.x }, Vector) end
Vector.__tostring = function(v) return "Vector(" .. v.x .. ")" end
local function vector(x) return setmetatable({ x = x }, Vector) end

print("operators", run(function(_, a, b) return tostring(a + b), getmetatable(a) == getmetatable(b) end, vector(1), vector(2)))
print("back", tostring(run(function() return vector(3) + vector(4) end)))

local weak = run(function() return setmetatable({}, { __mode = "k" }) end)
print("weak", getmetatable(weak).__mode)

-- A metatable with its own `__transfer`.
local Connection = {}
Connection.__index = Connection
local function connect(address) return setmetatable({ address = address, socket = io.tmpfile() }, Connection) end
Connection.__transfer = function(self) return connect, self.address .. "!" end
print("rebuilt", run(function(_, c) return c.address, io.type(c.socket) end, connect "host"))
