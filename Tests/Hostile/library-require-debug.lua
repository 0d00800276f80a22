-- expect: error: module 'debug' not found
return require("debug")
