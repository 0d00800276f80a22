import LuaBindings

func runTimers() async throws {
    let runtime = try Runtime()
    let loop = Task {
        for await _ in runtime.wakes() { try runtime.drain() }
    }
    try await runtime.run("opscript.after(0.01, function() print 'the timer has fired' end)")
    _ = try await runtime.finish()
    runtime.close()
    // The sequence ends with the runtime.
    try await loop.value
}
