-- expect: ok
return #("%p"):format({}) > 0
