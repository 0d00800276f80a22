-- expect: memory
return #string.pack("c100000000", "")
