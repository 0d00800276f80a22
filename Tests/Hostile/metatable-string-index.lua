-- expect: ok
getmetatable("").__index = nil return pcall(function() return ("x"):rep(2) end) == false
