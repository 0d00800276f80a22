-- expect: error: limits.memory|memory
local op = opscript.Operation.new()
op:observe("x", { "old", "new" }, print)
op:observe("y", { "old", "new" }, print)
while true do
    op.x = 1
    op.y = nil
end
