-- Runs a file of Lua's own test suite inside an operation: `opscript operation.lua FILE`.
local operation = opscript.OperationQueue.new():addOperation(function(_, name)
  _port, _soft, _nomsg = true, true, true -- as the suite's all.lua sets them: portable tests, and no long ones
  assert(loadfile(name))(name)
end, arg[1])
operation:waitUntilFinished()
if operation.error then
  io.stderr:write(operation.error.message, "\n", operation.error.traceback, "\n")
  os.exit(1)
end
