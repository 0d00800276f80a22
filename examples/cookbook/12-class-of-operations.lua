#!/usr/bin/env opscript
-- A class of operations: commands that fail if their status is not the expected one, and keep their output.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

local Command = Operation:subclass "Command"
Command.expectedStatus = 0                                   -- one for all, unless an operation has its own

function Command:init(line)                                  -- called by Command.new, in this state
  self.name = line
  self.line = line
end

function Command:main()                                      -- called on a worker
  return opscript.run { "sh", "-c", self.line, ok = self.expectedStatus }
end

local Count = Command:subclass "Count"                       -- a subclass of Command

function Count:main() return tonumber(Command.main(self)) end

local hello = Command.new "echo hello"
local count = Count.new "printf 'a\nb\nc\n' | wc -l"
local fails = Command.new "exit 2"
local expected = Command.new "echo two; exit 2"
expected.expectedStatus = 2

local ops = { hello, count, fails, expected }
OperationQueue.new():addOperations(ops, true)
for _, op in ipairs(ops) do print(op.error or op.result, op:isKindOf(Count)) end
