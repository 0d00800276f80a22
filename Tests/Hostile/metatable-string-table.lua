-- expect: ok
string.rep, string.format, string.find = nil return string.rep == nil
