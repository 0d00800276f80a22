-- The seeds of the parcel fuzzer: the results of each function become a parcel. `object` is an object of the host.
local object = ...

local function cycle()
  local t = { 1, 2, 3, { "a", b = { c = {} } }, key = "value", other = { key = "again" } }
  t.self = t
  return t, t
end

local function closures()
  local n, m = 0, {}
  local function add()
    n = n + 1
    m[n] = add
    return n
  end
  return add, function() return n, m end, cycle
end

local function deep()
  local t = {}
  for _ = 1, 100 do t = { t, function() return t end } end
  return t
end

local function transfers()
  local M = {}
  local function rebuild(...) return { n = select("#", ...), ... } end
  M.__transfer = function(self) return rebuild, self.a, nil, self.b end
  local a = setmetatable({ a = { 1 } }, M)
  local b = setmetatable({ a = a, b = { a } }, M)
  b.b.b = b
  return { [a] = b, x = b }, function() return a, b end, b
end

local function globals()
  limit = 3
  function helper(x) return x + limit end
  next = nil
  return function(x)
    next = helper
    return helper(x)
  end, helper, _G
end

local function keys()
  local a, b = {}, {}
  a[b], b[a] = a, b
  return { a, { [a] = { [b] = function() return a, b end } } }
end

local function classes()
  local Point = { sum = function(p) return p.x end }
  Point.__index = Point
  local p = setmetatable({ x = 1 }, Point)
  local known, deep = setmetatable({ [Point] = "class", [p] = "object" }, { __mode = "k" }), p
  for _ = 1, 100 do deep = setmetatable({ deep }, Point) end
  return p, { p, Point, known }, deep, setmetatable({}, { __eq = rawequal })
end

-- The bytes of a class are the parcel's own only when the class is sent for the first time.
local Known = { 1, { 2.5 }, name = "known", sum = function(p) return p.x + 1 end }
Known.__index = Known
local function known() return { setmetatable({ x = 1 }, Known), Known.sum, function() return Known end } end

local function frozen()
  local f = require "opscript".freeze { 1, "text", { key = {} }, [("x"):rep(20000)] = true, f = function(x) return x end }
  return f, { f, [f] = f[3] }, function() return f end
end

return {
  frozen,
  classes,
  function() return ("long"):rep(5000), { [("key"):rep(6000)] = ("long"):rep(5000) } end,
  function() return nil, true, false, 1, -1, 1.5, 0 / 0, "text", math.maxinteger, math.mininteger, ("x"):rep(300) end,
  function() return { "a", 2, id = 1, name = "row", score = 0.5, [7] = true, [2.5] = false } end,
  cycle,
  closures,
  deep,
  transfers,
  globals,
  keys,
  function() return string.format, table, function() return math.floor, _G end end,
  function() return setmetatable({ 1 }, { __index = { x = 1 }, __len = function() end }), setmetatable({}, { __mode = "k" }) end,
  function() return object, { object, [object] = object }, function() return object end end,
  -- The host's side of a worker process must not run these: messages.c looks for the global.
  function()
    local function run() hasRun = true end
    return run, setmetatable({}, { __index = run, __newindex = run, __len = run, __eq = run, __tostring = run, __close = run })
  end,
  known,
  known,
}
