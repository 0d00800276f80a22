-- expect: error: non-closable
local x <close> = {}
