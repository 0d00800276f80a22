-- expect: ok
return load("--" .. ("x"):rep(1000000)) ~= nil
