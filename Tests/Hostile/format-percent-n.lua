-- expect: error: invalid conversion
return ("%n"):format(1)
