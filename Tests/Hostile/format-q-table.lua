-- expect: error: value has no literal form
return ("%q"):format({})
