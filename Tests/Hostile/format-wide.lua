-- expect: error: invalid conversion
return ("%1000d"):format(1)
