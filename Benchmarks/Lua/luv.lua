-- The workloads of opscript.lua with luv. `lua5.4 luv.lua WORKLOAD COUNT` prints the value and the processor time per operation in ns.
local uv = require "luv"

local function seconds(f)
  local start = uv.hrtime()
  f()
  return (uv.hrtime() - start) / 1e9
end

-- luv passes the worker's results to the second function as arguments.
local function exchange(value, count)
  return seconds(function()
    local work = uv.new_work(function(sent) return sent end, function(result) assert(#result == #value) end)
    for _ = 1, count do
      work:queue(value)
      uv.run()
    end
  end) / count * 1e6
end

local function flood(count)
  return seconds(function()
    local finished = 0
    local work = uv.new_work(function(i) return i end, function() finished = finished + 1 end)
    for i = 1, count do work:queue(i) end
    uv.run()
    assert(finished == count)
  end) / count * 1e9
end

local workloads = { L1 = flood, L1h = flood }

function workloads.L5(count)
  local times = {}
  local work = uv.new_work(function() end, function() end)
  for i = 1, count do
    times[i] = seconds(function()
      work:queue()
      uv.run()
    end)
  end
  table.sort(times)
  return times[(count + 1) // 2] * 1e6
end

function workloads.T1(count) return exchange(("x"):rep(1000000), count) end

local workload, count = workloads[arg[1]], tonumber(arg[2])
if not workload then os.exit(3) end
workload(math.max(1, count // 10))
local start = os.clock()
local value = workload(count)
print(value, (os.clock() - start) / count * 1e9)
