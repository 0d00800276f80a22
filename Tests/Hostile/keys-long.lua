-- expect: error: limits.valueBytes
opscript.Operation.new { exclusive = ("x"):rep(3 << 20) }
