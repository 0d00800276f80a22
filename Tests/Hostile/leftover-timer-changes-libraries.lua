-- expect: ok
local function harm()
    for name in pairs(string) do string[name] = error end
    getmetatable("").__index, getmetatable("").__add = error, function() return "ab" end
    table.concat, math.floor, load, x = nil, nil, nil, 1
    package.loaded._G.x, package.loaded.string, package.preload.x = 1, {}, error
end
for _ = 1, 20 do opscript.every(0.001, harm) end
