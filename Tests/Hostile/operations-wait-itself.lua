-- expect: error: waits for itself
local op = ... op:waitUntilFinished()
