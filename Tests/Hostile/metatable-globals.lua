-- expect: ok
setmetatable(_G, { __index = function() return 1 end }) return undefined == 1
