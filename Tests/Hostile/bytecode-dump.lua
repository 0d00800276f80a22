-- expect: error: attempt to call a nil value
return string.dump(function() end)
