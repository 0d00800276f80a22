#!/usr/bin/env opscript
-- Adds up log files of any length on all cores: parses each line, and merges the counts in the order that suits the workers.

local queue = opscript.OperationQueue.new "log"

local path = os.tmpname()
do
  local log <close> = assert(io.open(path, "w"))
  for i = 1, 20000 do
    log:write(("%s GET /page/%d %d %d\n"):format(i % 3 == 0 and "10.0.0.1" or "10.0.0.2", i % 7, i % 50 == 0 and 404 or 200, i % 1000))
  end
end

local function parse(line)                                   -- runs on a worker, for many lines in one operation
  local client, status, bytes = line:match "^(%S+) %S+ %S+ (%d+) (%d+)$"
  if not client then return {} end
  return { [client] = { requests = 1, failed = status == "404" and 1 or 0, bytes = tonumber(bytes) } }
end

local function merge(all, more)                              -- on workers, and here
  for client, counts in pairs(more) do
    local sums = all[client]
    if not sums then
      all[client] = counts
    else
      for key, count in pairs(counts) do sums[key] = sums[key] + count end
    end
  end
  return all
end

local clients = queue:reduce(parse, merge, opscript.lines(path))
os.remove(path)
for _, client in ipairs { "10.0.0.1", "10.0.0.2" } do
  local sums = clients[client]
  print(client, sums.requests .. " requests", sums.failed .. " failed", sums.bytes .. " bytes")
end
