-- expect: error: attempt to index a nil value
return debug.getregistry()
