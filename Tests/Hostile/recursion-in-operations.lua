-- expect: ok|timeout|memory
for _ = 1, 3 do
    opscript.OperationQueue.new():addOperation(function()
        local function f() return 1 + f() end
        return f()
    end):waitUntilFinished()
end
