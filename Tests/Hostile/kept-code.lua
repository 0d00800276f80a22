-- expect: error: limits.memory
local queues = {}
for j = 1, 9 do
    queues[j] = opscript.OperationQueue.new { isSuspended = true }
    for i = 1, 99 do
        queues[j]:addOperation(load("return '" .. ("x"):rep(100000) .. i .. "." .. j .. "'"))
    end
end
