-- expect: error: invalid UTF-8
for _ in utf8.codes("\xff") do end
