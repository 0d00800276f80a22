-- expect: ok
return package.loaded.io == nil and package.loaded.debug == nil and package.loadlib == nil
