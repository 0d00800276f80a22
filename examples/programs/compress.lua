#!/usr/bin/env opscript
-- compress.lua FOLDER: compresses each file, and writes its digest beside it. The next run does only the rest, even if this one was killed.
local queue = opscript.OperationQueue.new()
local folder = assert(arg[1], "usage: compress.lua FOLDER")
local find = { "find", folder, "-type", "f", "!", "-name", "*.gz", "!", "-name", "*.sha256", "!", "-name", ".*", "-print0" }
for path in opscript.run(find):gmatch "[^\0]+" do
  local gz, digest = path .. ".gz", path .. ".sha256"
  queue:addOperation(opscript.Operation.new { name = path, inputs = path, outputs = { gz, digest }, main = function(op)
    opscript.run { "gzip", "-nc", path, stdout = op:output(gz) }
    opscript.run { "sha256sum", path, stdout = op:output(digest) }
  end })
end
