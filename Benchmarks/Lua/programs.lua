-- The workloads of programs. `opscript programs.lua WORKLOAD COUNT` prints the value and the processor time of each unit of work.
local count = tonumber(arg[2])

local function seconds(f)
  local start = opscript.now()
  f()
  return opscript.now() - start
end

local function inQueue(command)
  local queue = opscript.OperationQueue.new()
  for i = 1, count do
    local program = command(i)
    queue:addOperation(function() opscript.run(program) end)
  end
  queue:waitUntilAllOperationsAreFinished()
end

local workloads = {}

-- Programs that do nothing. Microseconds a program.
function workloads.R1()
  return seconds(function() inQueue(function() return { "true" } end) end) / count * 1e6
end

-- Digests of files of 256 KB. Microseconds a file.
function workloads.R2()
  local folder = opscript.fs.tempdir()
  for i = 1, count do assert(opscript.fs.write(folder .. "/" .. i, ("%064d"):format(i):rep(4096))) end
  return seconds(function() inQueue(function(i) return { "sha256sum", folder .. "/" .. i } end) end) / count * 1e6
end

-- The lines of a program that writes `count` megabytes. Milliseconds a megabyte.
function workloads.R3()
  local lines = 0
  local command = "yes 'a line of a log, with a time, a place and some words' | head -c " .. count .. "000000"
  local time = seconds(function()
    for _ in opscript.sh({ command, stdout = "pipe" }):lines() do lines = lines + 1 end
  end)
  assert(lines > count * 10000)
  return time / count * 1e3
end

-- One program after the other. Microseconds a program.
function workloads.R4()
  return seconds(function()
    for _ = 1, count do assert(opscript.process({ "true" }):wait().status == 0) end
  end) / count * 1e6
end

-- The files of a tree, with their sizes. Microseconds a file.
function workloads.R5()
  local folder, found = opscript.fs.tempdir(), 0
  for i = 1, count do
    local inner = ("%s/%d"):format(folder, i % 100)
    if i <= 100 then assert(opscript.fs.mkdir(inner)) end
    assert(opscript.fs.write(("%s/%d"):format(inner, i), ""))
  end
  local time = seconds(function()
    for _, kind, size in opscript.fs.walk(folder) do found = found + (kind == "file" and size == 0 and 1 or 0) end
  end)
  assert(found == count)
  return time / count * 1e6
end

local start = os.clock()
local value = (workloads[arg[1]] or function() os.exit(3) end)()
print(value, (os.clock() - start) / count * 1e9)
