import Glibc
import LuaBindings

// The worker process of a host whose `Configuration.isolation` is `.process`.
WorkerProcess.serveIfRequested()
let message = "opscript-worker runs operations of a program that uses opscript, which starts it itself.\n"
_ = unsafe message.withCString { unsafe write(2, $0, strlen($0)) }
exit(1)
