-- expect: ok
return load(function() error("no") end) == nil
