-- expect: error: not available here
opscript.Operation.new { conditions = { { "fileExists", "/etc/passwd" } } }
