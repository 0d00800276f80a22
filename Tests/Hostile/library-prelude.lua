-- expect: error: opscript.prelude is not available
opscript.prelude(function() string.rep = nil end)
