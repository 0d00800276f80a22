import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

/// Ctrl-C, whenever it comes. One test, because a process has one runtime that catches it.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct InterruptionTests {
    @Test func itEndsAScriptAtAnyMoment() throws {
        let bodies = [
            "Operation.new(function() end):start()", "coroutine.wrap(coroutine.yield)()", "opscript.sleep(0)", "done:waitUntilFinished()",
        ]
        try withRuntime { runtime throws in
            try runtime.run("done = queue:addOperation(function() end) done:waitUntilFinished()")
            let rounds = TestLength.size(1000)
            let scriptThread = unblocking(SIGINT)
            let turn = Atomic(0)
            let pace = Pace(threads: 2)
            let sender = OperationQueue()
            defer { sender.waitUntilAllOperationsAreFinished() }
            sender.addOperation {
                var random = SeededGenerator(seed: 1)
                for _ in 0..<rounds * bodies.count {
                    pace.step()
                    for _ in 0..<Int.random(in: 0..<5000, using: &random) { turn.add(1, ordering: .relaxed) }
                    pthread_kill(scriptThread, SIGINT)
                    pace.step()
                }
            }
            for body in bodies {
                var lost = 0
                for _ in 0..<rounds {
                    try runtime.catchInterrupts()
                    pace.step()
                    do throws(LuaError) {
                        try runtime.evaluate("for i = 1, 1e5 do \(body) end")
                        lost += 1
                    } catch { #expect(error.message.hasSuffix("interrupted!")) }
                    pace.step()
                }
                #expect(lost == 0, "\(body)")
            }
            runtime.releaseInterrupts()
        }
    }

    /// Threads of Swift's pool block signals. Returns the calling thread.
    private func unblocking(_ signal: Int32) -> pthread_t {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, signal)
        unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        return pthread_self()
    }
}
