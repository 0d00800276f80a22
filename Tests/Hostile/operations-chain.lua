-- expect: ok
local q = opscript.OperationQueue.new() local function go(_, q, go) q:addOperation(go, q, go) end q:addOperation(go, q, go) return true
