-- expect: error: cannot be changed here
opscript.resources { gpu = 1 }
