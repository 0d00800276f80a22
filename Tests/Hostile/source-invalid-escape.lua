-- expect: ok
return load("return '\\u{7FFFFFFFFFFF}'") == nil
