-- expect: error: invalid replacement value
return ("x"):gsub("x", function() return {} end)
