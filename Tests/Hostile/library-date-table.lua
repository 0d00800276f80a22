-- expect: error
return os.date("*t", math.maxinteger)
