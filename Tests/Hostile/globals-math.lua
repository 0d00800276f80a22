-- expect: ok
math.floor, math.huge, math.random = nil return math.huge == nil
