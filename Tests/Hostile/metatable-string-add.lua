-- expect: ok
getmetatable("").__add = function() return 1 end return "a" + "b"
