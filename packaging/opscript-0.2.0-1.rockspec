-- For `luarocks make packaging/opscript-0.2.0-1.rockspec` in a checkout, which needs Swift 6.2 or later and the packages of scripts/bootstrap.
rockspec_format = "3.0"
package = "opscript"
version = "0.2.0-1"
source = {
  url = "git+file://.",
}
description = {
  summary = "Functions become operations with dependencies, and queues start them on all cores",
  detailed = [[
    The module `opscript` for the stock interpreter: operations and queues that mean what Foundation's documentation says, timers,
    programs, time limits and memory limits.]],
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = {
  "lua ~> 5.4",
}
external_dependencies = {
  UV = { header = "uv.h" },
}
build = {
  type = "command",
  build_command = "scripts/build --module",
  install_command = "install -D -m 644 .build/release/opscript.so $(LIBDIR)/opscript.so",
}
