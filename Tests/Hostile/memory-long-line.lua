-- expect: memory
return load(function() return "x" end)
