-- expect: error: malformed pattern
return ("x"):find("%")
