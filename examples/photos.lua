#!/usr/bin/env opscript
-- Downloads photos, halves, shows and filters them, and shows each again.
--
--   photos.lua [--serial] [--cancel] [--large] [DIRECTORY]
--
-- 20 downloads, 4 at once; a reload of the whole view that depends on all of them; 20 filters that depend on the reload; 20
-- reloads of one item, each dependent on its filter. Downloads and filters run on workers, reloads here: the view belongs to this
-- state. --serial runs one operation at a time. --cancel cancels everything when half of the downloads have finished. --large makes
-- pictures of two megapixels, so that there is time to watch: opscript --report photos.html photos.lua --large
--
-- The pictures stay in DIRECTORY. Without DIRECTORY they are in a temporary one, which is removed at the end. Needs ImageMagick's
-- `convert`. The server is a process of its own (photoserver.lua), which needs lua-socket.

local options, directory = {}, nil
for _, word in ipairs(arg) do if word:find "^%-%-" then options[word] = true else directory = word end end
local folder, here, command = directory or opscript.fs.tempdir(), arg[0]:match "^(.*/)" or "./", 0
while arg[command - 1] do command = command - 1 end -- the command has the lowest index: options may stand between it and the script
local size = options["--large"] and "1632x1224" or "64x48"
local server = opscript.process { arg[command], here .. "photoserver.lua", folder .. "/server", size, stdout = "pipe" }
local port = assert(server:read(), "the server has not started")

local background, main = opscript.OperationQueue.new "photos", opscript.OperationQueue.main
background.maxConcurrentOperationCount = options["--serial"] and 1 or 4
local view, all, halved = { reloads = 1, items = {} }, {}, 0

local function make(name, dependency, body)
  all[#all + 1] = opscript.Operation.new { name = name, dependencies = { dependency }, main = function(op)
    body()
    op.endedAt = opscript.now()
  end }
  return all[#all]
end

local reload = make("reload", nil, function() view.reloads = view.reloads + 1 end)
for i = 1, 20 do
  local url, file = ("http://127.0.0.1:%s/%d.png"):format(port, i), ("%s/%d.png"):format(folder, i)
  local download = make("download " .. i, nil, function()
    opscript.fetch(url, { output = file })
    opscript.run { "mogrify", "-resize", "50%", file }
  end)
  reload:addDependency(download)
  local filter = make("filter " .. i, reload, function() opscript.run { "mogrify", "-colorspace", "Gray", file } end)
  make("reload " .. i, filter, function() view.items[#view.items + 1] = i end)
  download:observe("isFinished", function()
    halved = halved + 1
    if options["--cancel"] and halved == 10 then for _, queue in ipairs { main, background } do queue:cancelAllOperations() end end
  end)
end
for _, op in ipairs(all) do (op.name:find "^reload" and main or background):addOperation(op) end
for _, queue in ipairs { background, main } do queue:waitUntilAllOperationsAreFinished() end
server:kill()

table.sort(all, function(a, b) return (a.endedAt or 0) < (b.endedAt or 0) end)
for _, op in ipairs(all) do if op.endedAt then print(op.name) end end
print(("%d of the view, %d of items"):format(view.reloads, #view.items))
