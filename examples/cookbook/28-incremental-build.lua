#!/usr/bin/env opscript
-- Compiles changed files, and links if a file was compiled. The compiler writes the headers that a file includes into depfiles.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local folder = opscript.fs.tempdir() .. "/"
local function write(name, text) assert(opscript.fs.write(folder .. name, text)) end
write("sum.h", "int sum(int a, int b);\n")
write("sum.c", '#include "sum.h"\nint sum(int a, int b) { return a + b; }\n')
write("main.c", '#include <stdio.h>\n#include "sum.h"\nint main(void) { printf("%d\\n", sum(2, 3)); }\n')

local function build()
  local steps, objects = {}, {}
  for i, name in ipairs { "main", "sum" } do
    local source, object, depfile = folder .. name .. ".c", folder .. name .. ".o", folder .. name .. ".d"
    objects[i] = object
    steps[i] = Operation.new { name = name .. ".o", inputs = source, outputs = object, depfile = depfile, main = function(op)
      opscript.run { "cc", "-MMD", "-MF", depfile, "-c", source, "-o", op:output() }
    end }
  end
  local program = folder .. "program"
  local link = Operation.new { name = "program", inputs = objects, outputs = program, dependencies = steps, main = function(op)
    opscript.run { "cc", "-o", op:output(), table.unpack(objects) }
  end }
  link.dependencyPolicy = "succeeded"
  steps[#steps + 1] = link
  OperationQueue.new():addOperations(steps, true)
  for _, op in ipairs(steps) do
    print("", op.name, op.isSkipped and "is up to date" or "was made: " .. op:whyRun():gsub("'.*/", "'"))
  end
end

print "first" build()
print "again" build()
write("sum.c", '#include "sum.h"\nint sum(int a, int b) { return b + a + 1; }\n')
print "a source was edited" build()
write("sum.h", "int sum(int first, int second);\n")
print "a header was edited" build()
print("the program prints " .. opscript.run { folder .. "program" })
