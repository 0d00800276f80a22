-- expect: memory|timeout
return load(function() return "x" end)
