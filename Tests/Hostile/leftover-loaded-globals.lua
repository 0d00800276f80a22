-- expect: ok
local globals = package.loaded._G
for name in pairs(globals) do globals[name] = nil end
globals.x = 1
