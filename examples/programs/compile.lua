#!/usr/bin/env opscript
-- compile.lua FOLDER: compiles the C files of a folder that have changed, or include a header that has, and links FOLDER/program.
local Operation, folder = opscript.Operation, assert(arg[1], "usage: compile.lua FOLDER")
local program, objects, steps = folder .. "/program", {}, {}

for source in opscript.fs.walk(folder, { match = "**/*.c" }) do
  local object, depfile = source:gsub("c$", "o"), source:gsub("c$", "d")
  objects[#objects + 1] = object
  steps[#steps + 1] = Operation.new { name = object, inputs = source, outputs = object, depfile = depfile, main = function(op)
    opscript.run { "cc", "-MMD", "-MF", depfile, "-c", source, "-o", op:output() }
  end }
end

local link = Operation.new { name = program, inputs = objects, outputs = program, dependencies = steps, main = function(op)
  opscript.run { "cc", "-o", op:output(), table.unpack(objects) }
end }
link.dependencyPolicy = "succeeded"
opscript.OperationQueue.new():addOperations({ link, table.unpack(steps) }, true)
