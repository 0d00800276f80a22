-- Output of programs: much of it in little memory, with labels, and to the end.
local opscript, parts = require "opscript", {}

-- Three programs write pieces of lines at the same time.
function parts.labels()
  local queue = opscript.OperationQueue.new()
  local script = "for i in $(seq 300); do printf a; printf '%s\n' $i; done; printf last"
  for _, name in ipairs { "one", "two", "three" } do
    queue:addOperation(opscript.Operation.new { name = name, main = function()
      opscript.run { "sh", "-c", script, stdout = "inherit", label = true }
    end })
  end
  queue:waitUntilAllOperationsAreFinished()
  opscript.run { "sh", "-c", "echo out; echo err >&2", stdout = "inherit", stderr = "stdout", label = "text" }
  opscript.run { "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x", stdout = "inherit", label = "long" }
end

function parts.memory()
  local function peak()
    local file <close> = io.open "/proc/self/status"
    return tonumber(file:read("a"):match "VmHWM:%s*(%d+)")
  end
  local before, size, count = peak(), 0, 0
  local p = opscript.process { "head", "-c", 300000000, "/dev/zero", stdout = "pipe" }
  for piece in p:lines(65536) do size = size + #piece end
  for _ in opscript.process({ "seq", 1000000, stdout = "pipe" }):lines() do count = count + 1 end
  local grown = peak() - before
  print(size, count, grown < 32 * 1024 or grown)
end

-- A pipe that has been read to its end needs no descriptor, although the script has the program.
function parts.descriptors()
  local function count() return tonumber(opscript.run "ls /proc/$PPID/fd | wc -l") end
  local before, programs = count(), {}
  for i = 1, 200 do
    programs[i] = opscript.process { "echo", i, stdout = "pipe", stderr = "null" }
    assert(programs[i]:read "a" == i .. "\n")
    programs[i]:wait()
  end
  local more = count() - before
  print(#programs, more < 20 or more)
end

if arg[1] then return parts[arg[1]]() end

local function own(part) return opscript.run { "/proc/self/exe", arg[0], part } end

local counts, others = {}, 0
for line in own("labels"):gmatch "[^\n]*" do
  local name, number = line:match "^(%l+): a(%d+)$"
  if not name then
    name = line:match "^(%l+): last$" or line:match "^(text): %l%l%l$" or line:match "^(long): x+$"
    if not name then print("mixed", line) end
  elseif tonumber(number) ~= (counts[name] or 0) + 1 then
    print("order", line)
  end
  counts[name] = (counts[name] or 0) + 1
end
print(counts.one, counts.two, counts.three, counts.text, counts.long)
print(own "memory")
print(own "descriptors")
