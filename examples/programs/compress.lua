#!/usr/bin/env opscript
-- compress.lua FOLDER: compresses each file, and writes its digest beside it. The next run does only the rest, even if this one was killed.
local queue = opscript.OperationQueue.new()
local folder = assert(arg[1], "usage: compress.lua FOLDER")
for path, kind in opscript.fs.walk(folder) do
  local gz, digest = path .. ".gz", path .. ".sha256"
  if kind == "file" and not path:find "%.gz$" and not path:find "%.sha256$" then
    queue:addOperation(opscript.Operation.new { name = path, inputs = path, outputs = { gz, digest }, main = function(op)
      opscript.run { "gzip", "-nc", path, stdout = op:output(gz) }
      opscript.run { "sha256sum", path, stdout = op:output(digest) }
    end })
  end
end
