-- expect: error: the limit of|timeout
while true do opscript.Operation.new(function() end):start() end
