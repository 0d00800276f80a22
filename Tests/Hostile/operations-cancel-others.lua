-- expect: ok
for _, op in ipairs(opscript.OperationQueue.current.operations) do if op ~= (...) then op:cancel() end end return true
