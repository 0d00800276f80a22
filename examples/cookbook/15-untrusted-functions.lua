#!/usr/bin/env opscript
-- Runs untrusted functions with limits on memory and time, and with only the globals that they may use.

local sources = {
  good = "local sum = 0 for i = 1, 100 do sum = sum + i end return sum",
  greedy = "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
  endless = "pcall(function() while true do end end) return 'caught'",
  curious = "return os.getenv 'HOME'",
}

local function guarded(op, source)
  local f = assert(load(source, "=untrusted", "t", { pcall = pcall }))
  return f()
end

local queue = opscript.OperationQueue.new()
for _, name in ipairs { "good", "greedy", "endless", "curious" } do
  local op = opscript.Operation.new {
    name = name,
    main = guarded,
    arguments = { sources[name] },
    memoryLimit = 4 * 1024 * 1024,
    timeout = name == "endless" and 0.1 or 30,
  }
  queue:addOperation(op):waitUntilFinished()
  print(name, op.result or op.error.kind)
end
