import CPlatform
import CTestSupport
import Glibc
import TestSupport
import Testing

@_spi(Locking) @testable import OpEngine

/// A wake-up that is lost shows as a test that does not end.
@Suite struct LockTests {
    @Test func itIsFourBytesThatTheKernelCanCompare() {
        #expect(MemoryLayout<Lock>.size == 4 && MemoryLayout<Lock>.alignment == 4)
    }

    @Test func oneThreadAtATimeAndNobodySleepsForEver() async {
        await #expect(processExitsWith: .success) {
            #expect(unsafe cplatform_has_membarrier)
            contend()
        }
    }

    @Test func alsoWhereTheKernelOrdersNothing() async {
        await #expect(processExitsWith: .success) {
            unsafe cplatform_has_membarrier = false
            contend()
        }
    }

    @Test func alsoWhereASandboxForbidsToOrderThem() async {
        await #expect(processExitsWith: .success) {
            #expect(forbid_membarrier() && !cplatform_membarrier())
            contend()
        }
    }

    /// A lock is gone as soon as the last thread has unlocked it and let go of what it is part of.
    @Test func itGoesWithItsOwner() {
        for _ in 0..<TestLength.size(2000) {
            let counter = Counter()
            let threads = (0..<3).map { _ in TestThread { counter.increment() } }
            for thread in threads { thread.join() }
            #expect(counter.value == 3)
        }
    }
}

/// What a lock guards.
// Safety: `@unchecked Sendable` because the lock guards the count, and nothing else does.
private final class Counter: @unchecked Sendable {
    private let lock = Lock()
    private var count = 0

    var value: Int { lock.withLock { count } }

    func increment() { lock.withLock { count += 1 } }

    /// The same, and leaves the processor meanwhile, so that others find the lock held until they sleep.
    func incrementSlowly() {
        lock.withLock {
            let before = count
            for _ in 0..<20 { sched_yield() }
            count = before + 1
        }
    }

    /// The same, and goes to sleep at once when the lock is held.
    func incrementSleepily() {
        lock.lockSlowly(spins: 0)
        count += 1
        lock.unlock()
    }
}

/// More threads than processors; some go to sleep just when others unlock.
private func contend() {
    let (threadCount, rounds) = (6, TestLength.size(20_000))
    let counter = Counter()
    let threads = (0..<threadCount).map { thread in
        TestThread {
            var random = SeededGenerator(seed: UInt64(thread))
            for _ in 0..<rounds {
                switch random.next() % 1000 {
                case 0: counter.incrementSlowly()
                case 1..<100: counter.incrementSleepily()
                default: counter.increment()
                }
            }
        }
    }
    for thread in threads { thread.join() }
    #expect(counter.value == threadCount * rounds)

    // Two in step: nobody comes later who would wake the one that sleeps.
    let pair = Counter()
    let pace = Pace(threads: 2)
    // Each round may take a turn of both on a busy processor.
    let pairRounds = rounds / 10
    let other = TestThread {
        for _ in 0..<pairRounds {
            pace.step()
            pair.incrementSleepily()
        }
    }
    for _ in 0..<pairRounds {
        pace.step()
        pair.increment()
    }
    other.join()
    #expect(pair.value == 2 * pairRounds)
}
