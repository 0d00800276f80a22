#!/usr/bin/env opscript
-- Downloads files, four at once. A download that breaks off continues, and each file gets its name when it is complete.

local folder = opscript.fs.tempdir()
local server = opscript.process {                            -- stands for the servers of the world
  "python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", cwd = folder, stdout = "pipe", stderr = "null",
}
local base = server:read():match "http://[%d.:]+/"
for i = 1, 9 do opscript.fs.write(("%s/%d.txt"):format(folder, i), "file " .. i .. "\n") end

local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 4 }
local downloads = {}
for i = 1, 10 do                                             -- there are nine files
  local options = { output = ("%s/copies/%02d"):format(folder, i), retries = 5, timeout = 600 }
  downloads[i] = queue:addOperation(function() opscript.fetch(base .. i .. ".txt", options) end)
end
queue:waitUntilAllOperationsAreFinished()

for i, download in ipairs(downloads) do
  local problem = download.error and download.error.value
  if problem then print(i, problem.status, (problem.message:gsub(base, ""))) end
end
for _, copy in ipairs(opscript.fs.glob(folder .. "/copies/*[89]")) do io.write(opscript.fs.read(copy)) end
server:kill()
