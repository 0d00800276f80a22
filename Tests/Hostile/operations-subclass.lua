-- expect: ok|error
local C = opscript.Operation.subclass("Endless") function C:main() while true do end end opscript.OperationQueue.new():addOperation(C.new()) return true
