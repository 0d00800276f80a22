-- Random values and functions that are sent to a worker and back must return unchanged.
--
--   opscript Tests/Fuzz/roundtrip.lua [SEED [ROUNDS [SECONDS]]]
--
-- The seed of a round is SEED plus the number of the round, from 0. A failure prints the seed that repeats it with ROUNDS = 1. The test
-- ends after ROUNDS rounds or after SECONDS seconds, whichever comes first.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local first = math.tointeger(arg[1]) or os.time()
local rounds = math.tointeger(arg[2]) or math.huge
local seconds = tonumber(arg[3]) or math.huge
local random = math.random

local function chance(percent) return random(100) <= percent end
local function pick(list) return list[random(#list)] end

-- Values ---------------------------------------------------------------------------------------------------------------

local function bytes(count)
  local list = {}
  for i = 1, count do list[i] = string.char(random(0, 255)) end
  return table.concat(list)
end

local numbers = {
  0, 1, -1, 127, 128, -128, 255, 1 << 31, 1 << 53, math.maxinteger, math.mininteger, 0.0, -0.0, 1.5, 1e300, 5e-324, math.pi,
  1 / 0, -1 / 0, 2 ^ 53, 2 ^ 63,
}

-- A float with random bits, which includes every kind of NaN.
local function anyFloat()
  if chance(50) then return (string.unpack("<d", string.pack("<i8", random(0)))) end
  return (string.unpack("<d", string.pack("<I8", (chance(50) and 0xFFF or 0x7FF) << 52 | random(1, (1 << 52) - 1))))
end

local shared = { string.format, math.floor, table, math, io.stdout, print, opscript.Operation, coroutine.wrap }
local words = { "", "a", "key", "self", "_ENV", "n", "__index", "\0", "ä€", ("k"):rep(40), ("k"):rep(41) }

local function scalar()
  local kind = random(10)
  if kind == 1 then return chance(50) end
  if kind == 2 then return random(0) end
  if kind == 3 then return random(-300, 300) end
  if kind == 4 then return anyFloat() end
  if kind == 5 then return pick(numbers) end
  if kind == 6 then return bytes(random(0, 60)) end
  if kind == 7 then return chance(3) and bytes(100):rep(1000) or bytes(random(40, 300)) end
  if kind == 8 then return pick(shared) end
  return pick(words)
end

-- A random key that is neither nil nor NaN.
local function key()
  local value
  repeat value = scalar() until value == value and type(value) ~= "table" and type(value) ~= "userdata"
  return value
end

-- Graphs ---------------------------------------------------------------------------------------------------------------

-- Each maker returns functions that share variables. The last of these functions sets the variables.
local makers = {
  function()
    local a
    return function() return a end, function(x) a = x end
  end,
  function()
    local a, b, c
    local function nested()
      return function()
        b = b
        return a, c
      end
    end
    return nested, function() return a, b, nested end, function(x, y, z) a, b, c = x, y, z end
  end,
  function()
    local list = {}
    for i = 1, 3 do
      local own
      list[i] = function(x, isSet)
        if isSet then own = x end
        return own, i, list
      end
    end
    return list[1], list[2], list[3], function(x, y, z)
      list[1](x, true)
      list[2](y, true)
      list[3](z, true)
    end
  end,
  function() return function(...) return select("#", ...), G1, G2 end, function(x) G1 = x end end,
  function()
    local function read() return G2 end
    return function() return read(), G3 end, function(x, y) G2, G3 = x, y end
  end,
  function()
    local t <const> = { 1 }
    return function(n)
      if n == 0 then return t end
      return function() return t, n end
    end, function(x) t[2] = x end
  end,
}

-- A class whose objects are rebuilt on arrival. A table refers back to the object, and is complete only afterwards.
local function transferClass()
  local class = {}
  local function rebuild(fields) return setmetatable(fields, class) end
  class.__transfer = function(self) return rebuild, { id = self.id, child = self.child } end
  return class, rebuild
end

local metatables = setmetatable({}, { __mode = "k" })  -- the keys are metatables of values

local function chain(length, value)
  for i = 1, length do value = chance(70) and { value } or { [i] = value, last = i } end
  return value
end

local handles

local function graph()
  local nodes, objects = {}, {}
  for i = 1, random(1, 14) do nodes[i] = { id = i } end
  for _ = 1, random(0, 4) do
    local made = table.pack(pick(makers)())
    local set = made[made.n]
    for i = 1, made.n do nodes[#nodes + 1] = made[i] end
    objects[#objects + 1] = set
  end
  local classes = {}
  if chance(30) then
    for _ = 1, random(1, 2) do
      local class, make = transferClass()
      classes[#classes + 1] = class
      for i = 1, random(1, 4) do nodes[#nodes + 1] = make { id = bytes(4) .. i } end
    end
  end
  local function value()
    if chance(45) then return pick(nodes) end
    if chance(4) then return pick(handles) end
    if chance(2) then return chain(random(200), pick(nodes)) end
    return scalar()
  end
  for _, node in ipairs(nodes) do
    if type(node) == "table" then
      if rawget(node, "id") and getmetatable(node) then
        node.child = value()
      else
        for i = 1, chance(5) and random(2000) or random(0, 6) do node[i] = value() end
        for _ = 1, random(0, 5) do node[key()] = value() end
        if chance(15) then
          local other = pick(nodes)
          if other ~= node and type(other) == "table" and not getmetatable(other) then node[other] = value() end
        end
        if chance(20) then
          local metatable = pick(nodes)
          local isFit = type(metatable) == "table" and rawget(metatable, "__transfer") == nil and not getmetatable(metatable)
          if isFit and not metatable.__index then metatable.__index = pick { metatable, nodes[1] } end
          if isFit then
            debug.setmetatable(node, metatable)
            metatables[metatable] = true
          end
        end
      end
    end
  end
  for _, set in ipairs(objects) do set(value(), value(), value()) end
  for _, name in ipairs { "G1", "G2", "G3" } do _G[name] = chance(60) and value() or nil end
  local roots = table.pack(pick(nodes), value(), value(), nodes)
  for _, class in ipairs(classes) do
    roots.n = roots.n + 1
    roots[roots.n] = class
  end
  return roots
end

-- Comparing ------------------------------------------------------------------------------------------------------------

local compare

-- Returns the key of `b` that corresponds to the key `k` of `a`.
local function counterpart(state, a, b, k, path)
  if type(k) ~= "table" and type(k) ~= "function" then return k end
  if state.of[k] ~= nil then return state.of[k] end
  -- An unknown key: tables that are keys have an id that is unique among them.
  for other in next, b do
    if type(other) == "table" and type(k) == "table" and rawequal(rawget(other, "id"), rawget(k, "id")) and state.from[other] == nil then
      return other
    end
  end
  if type(k) == "function" then return k end  -- a function of a library
  error(path .. ": a key is missing", 0)
end

local function isSameScalar(a, b)
  if math.type(a) == "float" and math.type(b) == "float" then return string.pack("<d", a) == string.pack("<d", b) end
  return math.type(a) == math.type(b) and a == b
end

local function compareTables(state, a, b, path)
  local count = 0
  for k, v in next, a do
    local other = counterpart(state, a, b, k, path)
    local step = path .. "[" .. (type(k) == "string" and string.format("%q", k:sub(1, 20)) or tostring(k)) .. "]"
    compare(state, k, other, step .. " key")
    compare(state, v, rawget(b, other), step)
    count = count + 1
  end
  for _ in next, b do count = count - 1 end
  if count ~= 0 then error(path .. ": the number of fields differs by " .. count, 0) end
  compare(state, debug.getmetatable(a), debug.getmetatable(b), path .. ".<metatable>")
end

local function compareFunctions(state, a, b, path)
  local about, other = debug.getinfo(a, "Su"), debug.getinfo(b, "Su")
  for field, value in pairs(about) do
    if other[field] ~= value then error(path .. ": another function arrived: " .. field, 0) end
  end
  for i = 1, 255 do
    local name, value = debug.getupvalue(a, i)
    local otherName, otherValue = debug.getupvalue(b, i)
    if name ~= otherName then error(path .. ": upvalue names differ", 0) end
    if not name then break end
    if name ~= "_ENV" then
      local cell, otherCell = debug.upvalueid(a, i), debug.upvalueid(b, i)
      if (state.cells[cell] or otherCell) ~= otherCell or (state.cellsFrom[otherCell] or cell) ~= cell then
        error(path .. ": variables that were shared are not, or others are: " .. name, 0)
      end
      state.cells[cell], state.cellsFrom[otherCell] = otherCell, cell
      compare(state, value, otherValue, path .. "^" .. name)
    end
  end
end

-- A class is the same table when it returns.
local function isClass(value)
  if type(value) ~= "table" then return false end
  for key in next, value do
    if type(key) == "string" and key:sub(1, 2) == "__" then return true end
  end
  return metatables[value] ~= nil
end

function compare(state, a, b, path)
  if type(a) ~= type(b) then error(path .. ": a " .. type(a) .. " became a " .. type(b), 0) end
  if (type(a) ~= "table" and type(a) ~= "function") or state.isShared[a] then
    if not isSameScalar(a, b) then error(string.format("%s: %s became %s", path, tostring(a), tostring(b)), 0) end
    return
  end
  if state.of[a] ~= nil or state.from[b] ~= nil then
    if state.of[a] ~= b or state.from[b] ~= a then error(path .. ": the shape differs", 0) end
    return
  end
  state.of[a], state.from[b] = b, a
  if rawequal(a, b) then
    if not isClass(a) then error(path .. ": it was not sent", 0) end
    return
  end
  state.waiting[#state.waiting + 1] = { a, b, path }
end

local function compareAll(a, b, what)
  local state = { of = {}, from = {}, cells = {}, cellsFrom = {}, waiting = {}, isShared = {} }
  for _, value in ipairs(shared) do state.isShared[value] = true end
  if a.n ~= b.n then error(what .. ": " .. tostring(a.n) .. " values became " .. tostring(b.n), 0) end
  for i = 1, a.n do compare(state, a[i], b[i], what .. " " .. i) end
  while #state.waiting > 0 do
    local x, y, path = table.unpack(table.remove(state.waiting))
    if #path > 200 then path = path:sub(1, 100) .. "…" .. path:sub(-90) end
    if type(x) == "table" then compareTables(state, x, y, path) else compareFunctions(state, x, y, path) end
  end
end

-- Rounds ---------------------------------------------------------------------------------------------------------------

local queue = OperationQueue.new "roundtrip"
handles = { queue, OperationQueue.main, Operation.new(function() end) }

local function finish(operation)
  operation:waitUntilFinished()
  if operation.error then error(operation.error.message .. "\n" .. operation.error.traceback, 0) end
  return operation.results
end

-- The ways to send values. Each returns the values that come back.
local ways = {
  arguments = function(values)
    return finish(queue:addOperation(function(_, ...) return ... end, table.unpack(values, 1, values.n)))
  end,
  upvalue = function(values) return finish(queue:addOperation(function() return table.unpack(values, 1, values.n) end)) end,
  global = function(values)
    sent = values
    local results = finish(queue:addOperation(function() return table.unpack(sent, 1, sent.n) end))
    sent = nil
    return results
  end,
  storage = function(values)
    local operation = Operation.new(function(op) op.back = op.there end)
    operation.there = values
    queue:addOperation(operation)
    finish(operation)
    return operation.back
  end,
  nested = function(values)
    return finish(queue:addOperation(function()
      local inner = opscript.OperationQueue.new():addOperation(function(_, ...) return ... end, table.unpack(values, 1, values.n))
      inner:waitUntilFinished()
      return table.unpack(inner.results, 1, inner.results.n)
    end))
  end,
}
local names = { "arguments", "upvalue", "global", "storage", "nested" }

-- A value that cannot be sent must raise an error with the path to it, wherever it is.
local function plant(values)
  local culprit = pick { coroutine.create(print), io.tmpfile() or coroutine.create(print), debug.upvalueid(plant or finish, 1) }
  values.n = values.n + 1
  values[values.n] = { { [bytes(3)] = culprit } }
  local ok, message = pcall(ways.arguments, values)
  if ok or not message:find("cannot send argument " .. values.n .. "[1]", 1, true) then error("planted: " .. tostring(message), 0) end
end

local function round(seed)
  math.randomseed(seed)
  local values = graph()
  local way = pick(names)
  compareAll(values, ways[way](values), way)
  if chance(10) then plant(values) end
end

local started, count = os.time(), 0
io.stderr:write("roundtrip: seed ", first, "\n")
while count < rounds and os.time() - started < seconds do
  local ok, message = pcall(round, first + count)
  if not ok then
    io.stderr:write("roundtrip: ", tostring(message), "\nroundtrip: to repeat it: scripts/fuzz roundtrip --seed ", first + count, " --rounds 1\n")
    os.exit(1)
  end
  count = count + 1
end
print(count .. " rounds")
