import CTestSupport
import Glibc
import TestLimits
import Testing

@testable import OpPlatform

@Suite(.endsWithin(seconds: 300)) struct JoinableThreadTests {
    /// The system has no memory for another stack.
    @Test func aThreadThatCannotStartIsJoinedAtOnce() async {
        if has_address_sanitizer() || has_thread_sanitizer() { return }
        await #expect(processExitsWith: .success) {
            let thread = JoinableThread()
            guard limit_address_space(4 << 20), !tryStartThread(as: thread, {}) else { exit(2) }
            let deadline = ContinuousClock.now + .seconds(20)
            thread.join(until: deadline)
            exit(ContinuousClock.now < deadline ? 0 : 1)
        }
    }
}
