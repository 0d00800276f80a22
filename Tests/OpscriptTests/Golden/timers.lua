-- The first timer starts one more thread.
local function threads()
  local pipe <close> = io.popen("ls /proc/" .. io.open("/proc/self/stat"):read "n" .. "/task | wc -l")
  return pipe:read "n"
end
print("threads", threads())
opscript.after(0, print):cancel()
print("threads", threads())

-- Timers call back in the state that set them.
local cancelled = opscript.after(60, print)
cancelled:cancel()
print(cancelled)
print(pcall(opscript.after, 1, "print"))

-- A waiting state runs timers.
local released = opscript.Operation.new(function() return "released" end)
opscript.after(0, function() opscript.OperationQueue.main:addOperation(released) end)
print(released:waitUntilFinished(), released.result)

-- The script goes on until no timer is pending.
local ticks = 0
opscript.every(0.01, function(timer)
  ticks = ticks + 1
  print("tick " .. ticks)
  if ticks == 3 then
    timer:cancel()
    opscript.after(0.01, function() print "after the last tick" end)
  end
end)
