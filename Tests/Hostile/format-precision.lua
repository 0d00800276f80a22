-- expect: error: invalid conversion
return ("%.1000f"):format(1)
