import Glibc
import LuaBindings

func runPollingLoop() async throws {
    let runtime = try Runtime()
    try await runtime.run("opscript.after(0.01, function() fired = true end)")
    var watched = pollfd(fd: runtime.wakeDescriptor, events: Int16(POLLIN), revents: 0)
    while try await runtime.run("return fired")[0] != true {
        if poll(&watched, 1, -1) > 0 { try runtime.drain() }
    }
    print("the descriptor was readable")
    runtime.close()
}
