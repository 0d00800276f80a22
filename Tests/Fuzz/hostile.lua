-- Makes hostile scripts from others: lua5.4 hostile.lua FOLDER TO SEED. Each new script has statements of several scripts, nested in constructs
-- that could hide an attack or keep it alive: pcall, coroutines, metamethods, callbacks, other operations.
local from, to, seed = arg[1], arg[2], math.tointeger(arg[3])
local COUNT = 40
math.randomseed(seed)

local function pick(list) return list[math.random(#list)] end

local sources, numbers = {}, { "0", "-1", "1", "1 << 60", "math.maxinteger", "math.mininteger", "1e308", "0/0", "3000", "2^53" }
for name in io.popen("ls '" .. from .. "'"):lines() do
  local file <close> = assert(io.open(from .. "/" .. name))
  local text = file:read("a"):gsub("^[^\n]*\n", "")
  sources[#sources + 1] = text
end

local wraps = {
  "pcall(function(...) %s end, ...)",
  "coroutine.wrap(function(...) %s end)(...)",
  "local c = coroutine.create(function(...) %s end) coroutine.resume(c, ...) coroutine.close(c)",
  "while true do pcall(function(...) %s end, ...) end",
  "for _ = 1, 3 do (function(...) %s end)(...) end",
  "local v = ... local x <close> = setmetatable({}, { __close = function() pcall(function(...) %s end, v) end })",
  "xpcall(error, function(...) %s end)",
  "local v = ... tostring(setmetatable({}, { __tostring = function() (function(...) %s end)(v) return '' end }))",
  "local v = ... local _ = setmetatable({}, { __index = function() (function(...) %s end)(v) end }).x",
  "table.sort({ 3, 1, 2 }, function(...) %s end)",
  "('abc'):gsub('.', function(...) %s end)",
  "opscript.OperationQueue.new():addOperation(function(...) %s end):waitUntilFinished()",
  "opscript.OperationQueue.new():addOperation(function(...) %s end)",
  "opscript.OperationQueue.main:addOperation(function(...) %s end)",
  "opscript.after(0, function(...) %s end)",
  "local op = opscript.Operation.new(function() end) op.completionBlock = function(...) %s end op:start()",
  "assert(load([=====[ %s ]=====]))(...)",
  "local _ENV = setmetatable({}, { __index = _ENV }) (function(...) %s end)(...)",
}

-- Replaces some numbers, and breaks a script now and then.
local function mutate(text)
  text = text:gsub("%f[%w]%d+%f[%W]", function(n) if math.random(6) == 1 then return "(" .. pick(numbers) .. ")" end end)
  if math.random(20) == 1 then
    local at = math.random(#text)
    text = text:sub(1, at) .. pick { "end", "(", "[[", "%b", "\0", "goto x", "<close>", "..." } .. text:sub(at + 1)
  end
  return text
end

local function make(depth)
  local text = "do " .. mutate(pick(sources)) .. "\nend"
  if math.random(3) == 1 then text = text .. "\ndo " .. mutate(pick(sources)) .. "\nend" end
  for _ = 1, math.random(0, depth) do
    local wrap = pick(wraps)
    local first, last = wrap:find("%s", 1, true)
    text = "do " .. wrap:sub(1, first - 1) .. text .. wrap:sub(last + 1) .. "\nend"
  end
  return text
end

for i = 1, COUNT do
  local file <close> = assert(io.open(("%s/%d-%02d.lua"):format(to, seed, i), "w"))
  file:write(make(3), "\n")
end
