-- expect: ok
for k in pairs(_G) do _G[k] = nil end return next(_G) == nil
