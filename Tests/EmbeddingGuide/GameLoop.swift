import LuaBindings

func runGameLoop() async throws {
    let runtime = try Runtime()
    try await runtime.run(
        """
        frames = 0
        for i = 1, 100 do opscript.OperationQueue.main:addOperation(function() frames = frames + 1 end) end
        """)
    // A frame spends at most two milliseconds on scripts, and leaves the rest to the next one.
    while try runtime.drain(for: .milliseconds(2)) { drawFrame() }
    print("drained", try await runtime.run("return frames")[0].integer!, "operations")
    runtime.close()
}

func drawFrame() {}
