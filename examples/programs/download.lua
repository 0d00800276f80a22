#!/usr/bin/env opscript
-- download.lua LIST FOLDER [RATE]: downloads the URLs of a list, 8 at once and at most RATE a second (20 by default). Tries a download that fails
-- again, with growing pauses. The next run downloads only the missing files.
local list, folder, rate = arg[1], assert(arg[2], "usage: download.lua LIST FOLDER [RATE]"), tonumber(arg[3] or 20)
local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 8, rateLimit = { count = rate } }
local retry = { attempts = 4, delay = 0.2, backoff = 2, jitter = true }

local downloads = {}
for url in assert(io.open(list)):read "a":gmatch "%S+" do
  local file = folder .. "/" .. url:match "[^/]*$"
  downloads[#downloads + 1] = opscript.Operation.new { name = url, outputs = file, retry = retry, main = function(op)
    opscript.fetch(url, { output = op:output(), timeout = 30 })
  end }
end
queue:addOperations(downloads, true)

for _, download in ipairs(downloads) do
  if download.attempt > 1 then print(download.name, "attempt " .. download.attempt) end
end
