-- `interrupt` and `memoryLimit` stop a body that checks nothing, wherever it is. The worker can be used afterwards.
local Q, Op = opscript.OperationQueue, opscript.Operation
local q = Q.new()
local begun = opscript.channel()
local bodies = {
  loop = function(op) begun:send(true); while true do end end,
  pcall = function(op) begun:send(true); while true do pcall(function() while true do end end) end end,
  xpcall = function(op) begun:send(true); while true do xpcall(function() while true do end end, function(e) while true do end end) end end,
  coroutine = function(op) local co = coroutine.create(function() begun:send(true); while true do end end); while true do coroutine.resume(co) end end,
  wrap = function(op) local f = coroutine.wrap(function() begun:send(true); while true do pcall(coroutine.yield) end end); while true do f() end end,
  sort = function(op) begun:send(true); while true do table.sort({5,4,3,2,1}, function(a, b) for i = 1, 1e9 do end return a < b end) end end,
  gsub = function(op) begun:send(true); while true do string.gsub("abc", ".", function() while true do end end) end end,
  close = function(op) local x <close> = setmetatable({}, { __close = function() op.closed = true end }); begun:send(true); while true do end end,
  sleep = function(op) begun:send(true); opscript.sleep(100) end,
  wait = function(op) begun:send(true); local inner = Op.new(); while true do inner:waitUntilFinished(50) end end,
  load = function(op) begun:send(true); while true do load(function() while true do end end) end end,
  meta = function(op) begun:send(true); local t = setmetatable({}, { __index = function(t, k) while true do end end }); while true do pcall(function() return t.x end) end end,
}
local names = {}
for name in pairs(bodies) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local op = Op.new { main = bodies[name], name = name }
  q:addOperation(op)
  begun:receive()
  op:interrupt()
  op:waitUntilFinished()
  local e = op.error
  print(name, op.isFinished, op.isCancelled, e.kind, e.message, op.closed)
end
local after = q:addOperation(function() return pcall(error, "x") end)
after:waitUntilFinished()
print("healthy", table.unpack(after.results))
local m = Op.new { memoryLimit = 1000000, main = function() local t = {}; while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = "x" .. i end end) end end }
q:addOperation(m); m:waitUntilFinished()
print(m.isCancelled, m.error.kind, m.error.message)
local m2 = Op.new { memoryLimit = 1000000, main = function() local s = ("x"):rep(100000) return #s end }
q:addOperation(m2); m2:waitUntilFinished(); print(m2.result)
