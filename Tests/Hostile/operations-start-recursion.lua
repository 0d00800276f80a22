-- expect: ok|error|timeout
local function f() opscript.Operation.new(f):start() end f()
