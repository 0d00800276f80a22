#!/usr/bin/env opscript
-- Fetches pictures, a few at a time, and makes a thumbnail of each. The next run skips the pictures that an earlier run
-- has fetched and made, even if that run was killed.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local folder = opscript.fs.tempdir() .. "/"
local downloads = OperationQueue.new { name = "downloads", rateLimit = { count = 100, seconds = 1, burst = 10 } }
local thumbnails = OperationQueue.new "thumbnails"

local function fetch(op, name, tag)                          -- stands for opscript.fetch
  if name == "moon" and op.attempt == 1 then error "connection reset" end
  opscript.run { "echo", "picture", tag, "of the", name, stdout = op:output() }
end
local function shrink(op, picture)                           -- stands for convert
  opscript.run { "head", "-c", 11, picture, stdout = op:output() }
end

-- `tags` has the server's tag of each picture, which changes with the picture.
local function run(tags)
  local all = {}
  for name, tag in pairs(tags) do
    local picture, thumbnail = folder .. name .. ".jpg", folder .. name .. ".small.jpg"
    local fetched = Operation.new {
      name = "fetch " .. name, outputs = picture, main = fetch, arguments = { name, tag },
      retry = { attempts = 5, delay = 0.01 }, timeout = 60,
    }
    local shrunk = Operation.new {
      name = "shrink " .. name, inputs = picture, outputs = thumbnail, main = shrink, arguments = { picture },
      dependencies = { fetched }, dependencyPolicy = "succeeded",
    }
    downloads:addOperation(fetched)
    thumbnails:addOperation(shrunk)
    all[#all + 1], all[#all + 2] = fetched, shrunk
  end
  thumbnails:waitUntilAllOperationsAreFinished()
  table.sort(all, function(a, b) return a.name < b.name end)
  for _, op in ipairs(all) do
    if op.error then print("", op.name, op.error.message) end
    if not op.isSkipped then print("", op.name, "attempt " .. op.attempt, (op:whyRun():gsub("'.*/", "'"))) end
  end
end

print "first" run { moon = "a", sun = "b" }
print "again" run { moon = "a", sun = "b" }
os.remove(folder .. "sun.small.jpg")                         -- as after a crash between the two steps
print "after a crash" run { moon = "a", sun = "b" }
print "the sun has changed" run { moon = "a", sun = "c" }
