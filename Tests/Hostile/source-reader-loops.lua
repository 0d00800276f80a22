-- expect: timeout
load(function() while true do end end)
