-- expect: ok
return #package.searchers == 1
