#!/usr/bin/env opscript
-- An incremental build of a C program: compiles what has changed, as many files at once as there are cores.
--
--   build.lua [DIRECTORY [FILES]]
--
-- Builds all C files in DIRECTORY into DIRECTORY/program. If several files have a function `main`, each of these becomes a program of its name,
-- linked with the files that have none. If DIRECTORY does not exist, the script makes it, with a program of FILES files (default: 50). Without
-- DIRECTORY, it builds such a program three times, edits a header before the third time, and removes the program. `CC`, `CFLAGS` and `LDLIBS` have
-- the meaning that they have for make. To build Lua's own source:
--
--   CFLAGS="-O2 -std=gnu99 -DLUA_USE_POSIX" LDLIBS=-lm build.lua lua-5.4.4/src
--
-- The compiler finds the headers of a file, and writes them into a depfile. `opscript --explain build.lua DIRECTORY` shows why a file is compiled,
-- and `opscript --dry-run` shows the files that would be compiled. If the compiler fails, its operation fails. The others run, but the program is
-- not linked.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local compiler, flags, libraries = os.getenv "CC" or "cc", os.getenv "CFLAGS" or "", os.getenv "LDLIBS" or ""

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

-- Writes a program whose files each include two of ten headers.
local function writeProgram(directory, count)
  for i = 0, 9 do write(("%s/h%d.h"):format(directory, i), ("#define H%d %d\n"):format(i, i)) end
  local calls = {}
  for i = 1, count - 1 do
    local a, b = i % 10, i // 10 % 10
    write(("%s/f%d.c"):format(directory, i),
      ('#include "h%d.h"\n#include "h%d.h"\nint f%d(void) { return %d + H%d * H%d; }\n'):format(a, b, i, i, a, b))
    calls[i] = i
  end
  local main = { "#include <stdio.h>\n" }
  for _, i in ipairs(calls) do main[#main + 1] = ("int f%d(void);\n"):format(i) end
  main[#main + 1] = "int main(void) {\n  int sum = 0;\n"
  for _, i in ipairs(calls) do main[#main + 1] = ("  sum += f%d();\n"):format(i) end
  main[#main + 1] = '  printf("%d\\n", sum);\n}\n'
  write(directory .. "/main.c", table.concat(main))
end

local function hasMain(path)
  local file <close> = assert(io.open(path))
  return ("\n" .. file:read "a"):find "\nint%s+main%s*%(" ~= nil
end

-- Runs a command with the words of `options`, such as "-O2 -g", at its end.
local function runWith(words, options)
  for option in options:gmatch "%S+" do words[#words + 1] = option end
  opscript.run(words)
end

-- These two run on workers. The store also compares their captured values: `compiler`, for example.
local function compile(op, source, object, depfile) runWith({ compiler, "-MMD", "-MF", depfile, "-c", source, "-o", object }, flags) end

local function link(op, program, objects) runWith({ compiler, "-o", program, table.unpack(objects) }, libraries) end

-- Builds the programs. Returns the names of the files that were made, of those that were up to date, and the errors.
local function build(directory)
  local queue, steps, mains, shared = OperationQueue.new "build", {}, {}, {}
  local compiling = {}
  for source in opscript.fs.walk(directory, { match = "*.c" }) do
    local object, depfile = source:gsub("%.c$", ".o"), source:gsub("%.c$", ".d")
    local list = hasMain(source) and mains or shared
    list[#list + 1] = object
    compiling[object] = Operation.new {
      name = object, main = compile, arguments = { source, object, depfile },
      inputs = { source }, outputs = { object }, depfile = depfile,
    }
    steps[#steps + 1] = compiling[object]
  end
  table.sort(shared)
  if #mains == 0 then mains[1] = table.remove(shared) end -- the linker reports the missing `main`
  for _, main in ipairs(mains) do
    local program = #mains == 1 and directory .. "/program" or main:gsub("%.o$", "")
    local objects, dependencies = { main, table.unpack(shared) }, {}
    for i, object in ipairs(objects) do dependencies[i] = compiling[object] end
    steps[#steps + 1] = Operation.new {
      name = program, main = link, arguments = { program, objects }, inputs = objects, outputs = { program },
      dependencies = dependencies, dependencyPolicy = "succeeded",
    }
  end
  for _, step in ipairs(steps) do queue:addOperation(step) end
  queue:waitUntilAllOperationsAreFinished()

  local made, upToDate, failed = {}, {}, {}
  for _, step in ipairs(steps) do
    local list = step.error and failed or step.isSkipped and upToDate or made
    list[#list + 1] = step.error and step.error.message or step.name:match "[^/]*$"
  end
  table.sort(made)
  return made, upToDate, failed
end

local function report(made, upToDate, failed)
  for _, message in ipairs(failed) do io.stderr:write(message, "\n") end
  local names = #made > 12 and { table.unpack(made, 1, 12) } or made
  local more = #made > 12 and (" and %d more"):format(#made - 12) or ""
  print(("%d made, %d up to date%s%s"):format(#made, #upToDate, #made > 0 and ": " or "", table.concat(names, " ") .. more))
  if #failed > 0 then os.exit(1) end
end

local directory, count = arg[1], math.tointeger(arg[2] or 50)
assert(count and count > 0, "build.lua: the number of files must be a positive integer")
if directory then
  if not opscript.fs.exists(directory) then
    assert(opscript.fs.mkdir(directory))
    writeProgram(directory, count)
  end
  report(build(directory))
else
  directory = opscript.fs.tempdir()
  writeProgram(directory, count)
  report(build(directory))
  report(build(directory))
  write(directory .. "/h3.h", "#define H3 30\n")
  report(build(directory))
  print("the program prints " .. opscript.run { directory .. "/program" })
end
