-- expect: error: programs are not available
return opscript.sh("true")
