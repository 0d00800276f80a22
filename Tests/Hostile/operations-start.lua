-- expect: error: the limit of
while true do opscript.Operation.new(function() end):start() end
