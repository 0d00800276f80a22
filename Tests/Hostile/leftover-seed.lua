-- expect: ok
for seed = 1, 1000 do math.randomseed(seed) end
opscript.every(0.001, function() math.randomseed(1) end)
