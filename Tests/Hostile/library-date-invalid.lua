-- expect: error: invalid conversion specifier
return os.date("%Ez")
