import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// The process belongs to the host: its signal handlers stay, and it may fork.
@Suite struct HostProcessTests {
    /// Makes a runtime use everything that it has.
    private static func useEverything(_ runtime: Runtime) throws {
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            queue:addOperation(function() return 1 end):waitUntilFinished()
            local fired = false
            opscript.after(0.001, function() fired = true end)
            while not fired do opscript.sleep(0.001) end
            assert(opscript.process({ "true" }):wait().status == 0)
            local looping = queue:addOperation(function() while true do end end)
            looping:interrupt()
            looping:waitUntilFinished()
            """)
    }

    @Test func theHostsSignalHandlersStay() async {
        await #expect(processExitsWith: .success) {
            let signals = [SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD]
            for number in signals { signal(number) { _ in } }
            func handlers() -> [UInt] {
                signals.map { number in
                    var action = sigaction()
                    unsafe sigaction(number, nil, &action)
                    return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: UInt.self)
                }
            }
            func mask() -> [Bool] {
                var set = sigset_t()
                unsafe pthread_sigmask(SIG_BLOCK, nil, &set)
                return signals.map { unsafe sigismember(&set, $0) == 1 }
            }
            let (before, maskBefore) = (handlers(), mask())
            for _ in 1...3 {
                let runtime = try Runtime()
                try HostProcessTests.useEverything(runtime)
                #expect(handlers() == before)
                runtime.close()
            }
            #expect(handlers() == before && mask() == maskBefore)

            // `catchInterrupts` takes two of them, and gives them back.
            let runtime = try Runtime()
            try runtime.catchInterrupts()
            try HostProcessTests.useEverything(runtime)
            let changed = zip(signals, zip(before, handlers())).filter { $1.0 != $1.1 }.map(\.0)
            #expect(changed == [SIGINT, SIGTERM])
            runtime.releaseInterrupts()
            #expect(handlers() == before)
            try runtime.catchInterrupts()
            runtime.close()
            #expect(handlers() == before)
        }
    }

    /// The C library's `system` ignores SIGINT and SIGQUIT in the whole process while a command runs.
    @Test func aCommandOfAScriptIgnoresNoSignalsOfTheHost() async {
        await #expect(processExitsWith: .success) {
            let runtime = try Runtime()
            let ignored = try runtime.run(
                """
                local function ignored(command)
                    local path = os.tmpname()
                    assert(os.execute(command .. ' >' .. path))
                    local file <close> = assert(io.open(path))
                    os.remove(path)
                    return file:read 'l'
                end
                local operation = opscript.OperationQueue.new():addOperation(function() return ignored 'grep SigIgn /proc/$PPID/status' end)
                operation:waitUntilFinished()
                local usual = io.open '/proc/self/status':read 'a':match 'SigIgn:%s*%x+'
                return usual == operation.result, usual == ignored 'grep SigIgn /proc/$PPID/status'
                """)
            #expect(ignored == [true, true])
            let results = try runtime.run("return os.execute(), os.execute 'exit 3', os.execute 'kill $$'")
            #expect(results == [true, .nil, .nil, "signal", 15])
            runtime.close()
        }
    }

    @Test func aHostForksAndExecutesPrograms() async {
        await #expect(processExitsWith: .success) {
            let runtime = try Runtime()
            try runtime.run(
                """
                queue = opscript.OperationQueue.new()
                for i = 1, 4 do queue:addOperation(function(op) while not op.isCancelled do string.rep('x', 1000) end end) end
                opscript.every(0.001, function() end)
                """)
            for _ in 1...20 {
                #expect(unsafe fork_and_execute("/bin/true") == 0)
                #expect(unsafe fork_and_execute("/bin/false") == 1)
            }
            #expect(try runtime.run("return queue:addOperation(function() end) ~= nil") == [true])
            #expect(runtime.close().isEmpty)
        }
    }

    @Test func aForkedProcessCannotUseARuntimeOfItsParent() async {
        await #expect(processExitsWith: .success) {
            let runtime = try Runtime()
            try runtime.run("opscript.OperationQueue.new():addOperation(function() end):waitUntilFinished()")
            func outcome(inChild body: @escaping @convention(c) (UnsafeMutableRawPointer?) -> Void) -> (status: Int32, text: String) {
                var text = [CChar](repeating: 0, count: 10_000)
                let status = unsafe fork_and_call(body, Unmanaged.passUnretained(runtime).toOpaque(), &text, text.count)
                return (status, String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
            }
            func useInChild() -> (status: Int32, text: String) {
                unsafe outcome { _ = try? unsafe Unmanaged<Runtime>.fromOpaque($0!).takeUnretainedValue().run("return 1") }
            }
            for refused in [useInChild(), runtime.enter { useInChild() }] {
                #expect(refused.status > 128)
                #expect(
                    refused.text.contains("a forked process calls run(_:name:arguments:) on a Runtime of its parent"), "\(refused.text)")
            }
            let closing = unsafe outcome { unsafe Unmanaged<Runtime>.fromOpaque($0!).takeUnretainedValue().close() }
            #expect(closing.text.contains("a forked process calls close(deadline:) on a Runtime of its parent"), "\(closing.text)")
            #expect(runtime.close().isEmpty)
        }
    }
}
