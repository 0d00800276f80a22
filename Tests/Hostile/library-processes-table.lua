-- expect: error: programs are not available
return opscript.process({ "true" })
