import Glibc
import TestLimits
import TestSupport
import Testing

@testable import OpPlatform

@Suite(.endsWithin(seconds: 60)) struct ThreadTests {
    @Test("A thread receives only the signals that it causes itself")
    func aThreadReceivesOnlyItsOwnSignals() {
        let blocked = Awaited<[Int32]>()
        OpPlatform.startThread {
            var signals = sigset_t()
            unsafe pthread_sigmask(SIG_BLOCK, nil, &signals)
            let all = [
                SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE,
            ]
            blocked.give(all.filter { unsafe sigismember(&signals, $0) == 1 })
        }
        #expect(blocked.get() == [SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1])
    }

    @Test("All threads that wait for a value get the first one that is given")
    func waitersGetTheFirstValue() {
        let value = Awaited<Int>(), got = Guarded<[Int]>([])
        onThreads(5) { number in
            if number == 4 {
                value.give(1)
                value.give(2)
            }
            let result = value.get()
            got.withLock { $0.append(result) }
        }
        #expect(got.withLock { $0 } == [1, 1, 1, 1, 1])
    }
}
