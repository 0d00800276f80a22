-- expect: ok
for i = 1, 20 do
    local op = opscript.Operation.new(function() opscript.sleep(i / 1000) end)
    op.completionBlock = function()
        for _, library in ipairs { string, table, math, opscript } do
            for name in pairs(library) do library[name] = error end
        end
        setmetatable(string, { __index = error })
    end
    op:observe("isFinished", function() getmetatable("").__index = error utf8.char = nil end)
    opscript.OperationQueue.new():addOperation(op)
end
