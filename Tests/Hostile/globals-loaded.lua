-- expect: ok
for k in pairs(package.loaded) do package.loaded[k] = nil end return next(package.loaded) == nil
