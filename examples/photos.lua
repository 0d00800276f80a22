#!/usr/bin/env opscript
-- Downloads photos, halves, shows and filters them, and shows each again.
--
--   photos.lua [--serial] [--cancel] [--large] [DIRECTORY]
--
-- 20 downloads; a reload of the whole view that depends on all of them; 20 filters that depend on the reload; 20 reloads of
-- one item, each dependent on its filter. Downloads and filters run on workers, reloads run here: the view belongs to this state.
-- --serial runs one operation at a time. --cancel cancels everything when half of the downloads have finished. --large makes
-- pictures of two megapixels, so that there is time to watch: opscript --report photos.html photos.lua --large
--
-- The pictures stay in DIRECTORY. Without DIRECTORY they are in a temporary one, which is removed at the end. Needs ImageMagick's
-- `convert` and lua-socket. The server is a process of its own (photoserver.lua).

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local http = require "socket.http"

local serial, cancels, size, directory = false, false, "64x48", nil
for _, word in ipairs(arg) do
  if word == "--serial" then
    serial = true
  elseif word == "--cancel" then
    cancels = true
  elseif word == "--large" then
    size = "1632x1224"
  elseif word:sub(1, 1) == "-" or directory then
    io.stderr:write "usage: photos.lua [--serial] [--cancel] [--large] [DIRECTORY]\n"
    os.exit(2)
  else
    directory = word
  end
end
directory = directory or opscript.fs.tempdir()

local function run(...) return opscript.run { ... } end

-- The photos, and their server ----------------------------------------------------------------------------------------

local count = 20
local programs = 4 -- at once: more of them only compete for the cores
local shop = directory .. "/server"
assert(opscript.fs.mkdir(shop))
local makers = OperationQueue.new "server"
makers.maxConcurrentOperationCount = programs
for i = 1, count do
  makers:addOperation(Operation.new { name = "photo " .. i, main = function()
    run("convert", "-size", size, ("gradient:hsl(%d,90%%,40%%)-white"):format(18 * i), ("%s/%d.png"):format(shop, i))
  end })
end
makers:waitUntilAllOperationsAreFinished()

-- The command has the lowest index: options may stand between it and the script.
local command = 0
while arg[command - 1] do command = command - 1 end
local here = arg[0]:match "^(.*/)" or "./"
local server = opscript.process { arg[command], here .. "photoserver.lua", shop, stdout = "pipe" }
local port = assert(server:read(), "the server has not started")

-- What is shown -------------------------------------------------------------------------------------------------------

local photos = {}
for i = 1, count do
  photos[i] = { url = ("http://127.0.0.1:%s/%d.png"):format(port, i), file = ("%s/%d.png"):format(directory, i) }
end

local view = { reloads = 0, items = {} }

function view:reload() self.reloads = self.reloads + 1 end

function view:reloadItem(i) self.items[#self.items + 1] = i end

-- Operations ----------------------------------------------------------------------------------------------------------

local function download(op, photo)
  local bytes, status = http.request(photo.url)
  if status ~= 200 then error(photo.url .. ": " .. tostring(status), 0) end
  if op.isCancelled then return end
  local file <close> = assert(io.open(photo.file, "wb"))
  file:write(bytes)
  file:close()
  run("mogrify", "-resize", "50%", photo.file)
end

local function filter(op, photo)
  if op.isCancelled then return end
  run("mogrify", "-colorspace", "Gray", photo.file)
end

local background, main = OperationQueue.new "photos", OperationQueue.main
background.maxConcurrentOperationCount = serial and 1 or programs

-- Makes an operation whose storage tells when its body ended.
local all = {}
local function make(name, body, ...)
  local op = Operation.new { name = name, arguments = { ... }, main = function(op, ...)
    body(op, ...)
    if not op.isCancelled then op.endedAt = opscript.now() end
  end }
  all[#all + 1] = op
  return op
end

local downloads, filters, reloads = {}, {}, {}
local reload = make("reload", function() view:reload() end)
for i, photo in ipairs(photos) do
  downloads[i] = make("download " .. i, download, photo)
  reload:addDependency(downloads[i])

  filters[i] = make("filter " .. i, filter, photo)
  filters[i]:addDependency(reload)

  reloads[i] = make("reload " .. i, function() view:reloadItem(i) end)
  reloads[i]:addDependency(filters[i])
end

if cancels then
  local finished = 0
  for _, op in ipairs(downloads) do
    op:observe("isFinished", function()
      finished = finished + 1
      if finished == count // 2 then
        main:cancelAllOperations()
        background:cancelAllOperations()
      end
    end)
  end
end

view:reload()
background:addOperations(downloads, false)
background:addOperations(filters, false)
main:addOperation(reload)
main:addOperations(reloads, false)
background:waitUntilAllOperationsAreFinished()
main:waitUntilAllOperationsAreFinished()
server:kill()

-- What happened -------------------------------------------------------------------------------------------------------

local ended = {}
for _, op in ipairs(all) do
  local problem = op.error
  if op.endedAt then
    ended[#ended + 1] = op
  elseif problem and not op.isCancelled then
    io.stderr:write("photos: ", op.name, ": ", problem.message, "\n")
  end
end
table.sort(ended, function(a, b) return a.endedAt < b.endedAt end)
for _, op in ipairs(ended) do print(op.name) end
print(("%d of the view, %d of items"):format(view.reloads, #view.items))
