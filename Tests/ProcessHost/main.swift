import Glibc
import LuaBindings

// A host that is its own worker executable. It runs an operation that never ends, prints the number of its worker process, and kills itself.
// With HOST_IGNORES_CHILDREN it ignores SIGCHLD, prints what an operation returns, and exits.
// With HOST_FORGETS_TO_SERVE it forgets that, and tries to be a host also as a worker process.
if unsafe getenv("HOST_FORGETS_TO_SERVE") == nil { WorkerProcess.serveIfRequested() }
var ends: [Int32] = [0, 0]
guard unsafe pipe(&ends) == 0 else { exit(1) }
let (output, input) = (ends[0], ends[1])
var configuration = Runtime.Configuration()
configuration.isolation = .process(executable: "/proc/self/exe")
let runtime = try Runtime(configuration)
if unsafe getenv("HOST_IGNORES_CHILDREN") != nil {
    signal(SIGCHLD, SIG_IGN)
    let operation = try runtime.run("return opscript.OperationQueue.new():addOperation(function() return 7 end)")[0].operation!
    let results = try runtime.results(of: operation)
    runtime.close()
    print(results)
    exit(0)
}
try runtime.register("begin") { (process: Int) in
    let line = "\(process)\n"
    _ = unsafe line.withCString { unsafe write(1, $0, strlen($0)) }
    _ = unsafe write(input, [0], 1)
}
try runtime.run(
    "opscript.OperationQueue.new():addOperation(function() begin(io.open('/proc/self/stat'):read 'n') while true do end end)")
var byte: UInt8 = 0
_ = unsafe read(output, &byte, 1)
kill(getpid(), SIGKILL)
