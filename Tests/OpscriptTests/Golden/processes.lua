-- Programs run beside the script and leave neither a descriptor nor a zombie behind.
local queue = opscript.OperationQueue.new()
local self = io.open("/proc/self/stat"):read "n"

-- Does not use `popen`, whose pipe may not be fully closed yet when the command runs.
local function count(command)
  local path = os.tmpname()
  os.execute(command .. " > " .. path)
  local file <close> = io.open(path)
  os.remove(path)
  return file:read "n"
end
local function descriptors() return count("ls /proc/" .. self .. "/fd | wc -l") end
local function zombies() return count("cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z " .. self .. " '") end

-- The first program of an operation opens the pipe of the jobserver.
local first = queue:addOperation(function() return opscript.sh "echo first":wait().stdout end)
first:waitUntilFinished()
print(first.result)
collectgarbage()
local before = descriptors()

for round = 1, 3 do
  local list, begun = {}, opscript.channel()
  for i = 1, 60 do
    list[i] = queue:addOperation(function()
      local p = opscript.sh { i % 3 == 0 and "sleep 1000" or i % 3 == 1 and "yes" or "cat; exit 5", input = ("x"):rep(100000) }
      begun:send(i)
      return p:wait()
    end)
  end
  for _ = 1, 60 do
    local i = begun:receive()
    if i % 3 ~= 2 then list[i]:cancel() end
  end
  queue:waitUntilAllOperationsAreFinished()
  local ended, read = 0, 0
  for _, op in ipairs(list) do
    if op.result.signal == "TERM" then ended = ended + 1 end
    if op.result.status == 5 then read = read + #op.result.stdout end
  end
  print(ended, read)
end
-- A search for living members of an ended group takes two descriptors for a moment. The leader of the group stays a zombie until its end.
local left, dead
for _ = 1, 100 do
  left, dead = descriptors() - before, zombies()
  if left == 0 and dead == 0 then break end
  opscript.sleep(0.02)
end
print("descriptors", left, "zombies", dead)

-- Output that is not captured goes where the script's output goes.
io.stdout:flush()
opscript.process { "echo", "inherited", stdout = "inherit" }:wait()
print(pcall(opscript.process, { "no-such-program" }))

-- The command waits at its end for a program that the script does not wait for.
opscript.sh { "sleep 0.1; echo the last", stdout = "inherit" }
