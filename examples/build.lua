#!/usr/bin/env opscript
-- A build: runs commands that need each other's files, as many at once as there are cores, and only where a file is out of date.
--
--   build.lua [DIRECTORY]
--
-- Builds a C program in DIRECTORY, by default an example that it writes first. `CC` names the compiler (default: cc).
-- A command that fails makes its operation fail. Rules that need its file are cancelled, and the others go on.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local compiler = os.getenv "CC" or "cc"

local directory = arg[1]
if not directory then
  directory = opscript.process({ "mktemp", "-d" }):wait().stdout:gsub("\n$", "")
  local sources = {
    ["main.c"] = '#include <stdio.h>\n#include "sum.h"\nint main(void) { printf("%d\\n", sum(40, 2)); }\n',
    ["sum.c"] = '#include "sum.h"\nint sum(int a, int b) { return a + b; }\n',
    ["sum.h"] = "int sum(int a, int b);\n",
  }
  for name, text in pairs(sources) do
    local file <close> = assert(io.open(directory .. "/" .. name, "w"))
    file:write(text)
  end
end

-- The rules: the file to make, its sources, and the command. The name of a rule is the file that it makes.
local rules = {
  ["main.o"] = { from = { "main.c", "sum.h" }, compiler, "-c", "main.c" },
  ["sum.o"] = { from = { "sum.c", "sum.h" }, compiler, "-c", "sum.c" },
  ["program"] = { from = { "main.o", "sum.o" }, compiler, "-o", "program", "main.o", "sum.o" },
  ["output"] = { from = { "program" }, "/bin/sh", "-c", "./program > output" },
}

local function run(command)
  local process = { cwd = directory, table.unpack(command) }
  return opscript.process(process):wait()
end

-- Runs on a worker.
local function make(op, target, rule)
  local isCurrent = run({ "test", "-e", target }).status == 0
  for _, source in ipairs(rule.from) do
    isCurrent = isCurrent and run({ "test", source, "-nt", target }).status == 1
  end
  if isCurrent then return "up to date" end
  print(table.concat(rule, " "))
  local ended = run(rule)
  if ended.status ~= 0 then error(target .. ": " .. ended.stderr, 0) end
  return "made"
end

local targets = {}
for target, rule in pairs(rules) do
  targets[target] = Operation.new { name = target, main = make, arguments = { target, rule }, dependencyPolicy = "succeeded" }
end
for target, rule in pairs(rules) do
  for _, source in ipairs(rule.from) do
    if targets[source] then targets[target]:addDependency(targets[source]) end
  end
end

local queue = OperationQueue.new "build"
for _, op in pairs(targets) do queue:addOperation(op) end
queue:waitUntilAllOperationsAreFinished()

local failed = false
for _, target in ipairs { "main.o", "sum.o", "program", "output" } do
  local op = targets[target]
  failed = failed or op.error ~= nil
  print(target .. ": " .. (op.result or op.error.message))
end
if not arg[1] then opscript.process({ "rm", "-r", directory }):wait() end
if failed then os.exit(1) end
