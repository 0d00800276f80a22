import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

private final class SignalCount: Sendable {
    let value = Atomic(0)
    /// The sender's step: 0 when it waits for its turn, 1 before it sends the signal, 2 while the signal is sent and perhaps handled.
    let phase = Atomic(0)
}

/// Ctrl-C at any moment. This is one test, because only one runtime of a process catches the signal.
@Suite struct InterruptionTests {
    @Test func itEndsAScriptAtAnyMoment() throws {
        let bodies = [
            "Operation.new(function() end):start()", "coroutine.wrap(coroutine.yield)()", "opscript.sleep(0)", "done:waitUntilFinished()",
        ]
        try withRuntime { runtime throws in
            let sent = SignalCount()
            try runtime.register("sent") { _ in [.integer(sent.value.load(ordering: .acquiring))] }
            try runtime.run("done = queue:addOperation(function() end) done:waitUntilFinished()")
            let rounds = TestLength.size(1000)
            let scriptThread = pthread_self()
            mask(SIG_UNBLOCK)
            defer { mask(SIG_BLOCK) }
            let turn = Atomic(0)
            let pace = Pace(threads: 2)
            let sender = OperationQueue()
            defer { sender.waitUntilAllOperationsAreFinished() }
            sender.addOperation { [self] in
                mask(SIG_UNBLOCK)
                defer { mask(SIG_BLOCK) }
                var random = SeededGenerator(seed: 1)
                for _ in 0..<rounds * bodies.count {
                    pace.step()
                    sent.phase.store(1, ordering: .relaxed)
                    for _ in 0..<Int.random(in: 0..<5000, using: &random) { turn.add(1, ordering: .relaxed) }
                    sent.phase.store(2, ordering: .relaxed)
                    // The kernel may deliver the signal to any thread.
                    pthread_kill(Bool.random(using: &random) ? scriptThread : pthread_self(), SIGINT)
                    sent.value.add(1, ordering: .releasing)
                    sent.phase.store(0, ordering: .relaxed)
                    pace.step()
                }
            }
            for body in bodies {
                var lost = 0
                for _ in 0..<rounds {
                    try runtime.catchInterrupts()
                    pace.step()
                    do throws(LuaError) {
                        try runtime.runLine(
                            """
                            local n, seconds, last = sent(), 0, os.time()
                            -- Each second that is seen counts once: the clock may jump.
                            while sent() == n and seconds < 60 do
                                \(body)
                                if os.time() ~= last then seconds, last = seconds + 1, os.time() end
                            end
                            if sent() == n then error 'no signal was sent in a minute' end
                            for i = 1, 2000 do \(body) end
                            """)
                        lost += 1
                    } catch {
                        let phase = sent.phase.load(ordering: .relaxed)
                        #expect(error.message.hasSuffix("interrupted!"), "\(body), phase \(phase), signal \(runtime.lastInterrupt ?? 0)")
                    }
                    pace.step()
                }
                #expect(lost == 0, "\(body)")
            }
            runtime.releaseInterrupts()
        }
    }

    /// Threads of Swift's pool and workers block signals.
    private func mask(_ how: Int32) {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGINT)
        unsafe pthread_sigmask(how, &signals, nil)
    }
}
