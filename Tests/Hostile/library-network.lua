-- expect: error: attempt to call a nil value (field 'fetch')
return opscript.fetch("http://127.0.0.1:1/")
