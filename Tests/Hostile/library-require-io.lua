-- expect: error: module 'io' not found
return require("io")
