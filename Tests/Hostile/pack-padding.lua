-- expect: error
return string.pack("!16 i17", 1)
