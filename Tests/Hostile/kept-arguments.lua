-- expect: error: limits.memory
local queues = {}
for j = 1, 9 do
    queues[j] = opscript.OperationQueue.new { isSuspended = true }
    for i = 1, 99 do queues[j]:addOperation(function(_, text) return #text end, ("x"):rep(300000) .. i .. "." .. j) end
end
