import LuaBindings
import OpEngine
import Testing

/// A script can end the host's process only when the host allows it.
@Suite struct ExitTests {
    @Test func theHostIsNotEndedByDefault() throws {
        try withRuntime { runtime throws in
            let message = try runtime.run("return select(2, pcall(os.exit, 3))").first?.text ?? ""
            #expect(message.hasPrefix("os.exit is not allowed here"))
            try runtime.run("local o = queue:addOperation(function() os.exit(3) end); o:waitUntilFinished(); failed = o.error.message")
            #expect(try runtime.global("failed").text?.contains("os.exit is not allowed here") == true)
            #expect(runtime.requestedExitStatus == nil)
        }
    }

    @Test func aHostThatAllowsItIsToldHowToEnd() async {
        await #expect(processExitsWith: .success) {
            var configuration = Runtime.Configuration()
            configuration.workerCount = 2
            configuration.scriptsMayExit = true
            let runtime = try Runtime(configuration)
            #expect(throws: LuaError.self) {
                try runtime.run(
                    """
                    queue = opscript.OperationQueue.new()
                    queue:addOperation(function() os.exit(7) end)
                    while true do pcall(function() while true do end end) end
                    """)
            }
            #expect(runtime.requestedExitStatus == 7)
            runtime.interruptAllOperations()
            #expect(runtime.close(deadline: .seconds(30)).isEmpty)
        }
    }
}
