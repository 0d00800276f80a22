import CPlatform
import CTestSupport
import Glibc
import TestSupport
import Testing

@testable import OpPlatform

/// A lost wake-up shows as a test that does not end.
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

    @Test("The slow lock lets one thread at a time change its value")
    func theSlowLockExcludes() {
        let count = SlowGuarded(0)
        onThreads(4) { _ in
            for _ in 0..<1000 {
                count.withLock {
                    let before = $0
                    sched_yield()
                    $0 = before + 1
                }
            }
        }
        #expect(count.withLock { $0 } == 4000)
    }

    /// A lock may be freed as soon as the last thread has unlocked it and released its owner.
    @Test func itGoesWithItsOwner() {
        for _ in 0..<TestLength.size(2000) {
            let counter = Counter()
            let threads = (0..<3).map { _ in TestThread { counter.increment() } }
            for thread in threads { thread.join() }
            #expect(counter.value == 3)
        }
    }
}

/// A value that a lock guards.
// Safety: `@unchecked Sendable` because the lock guards the count, and there is nothing else.
private final class Counter: @unchecked Sendable {
    private let lock = Lock()
    private var count = 0

    var value: Int { lock.withLock { count } }

    func increment() { lock.withLock { count += 1 } }

    /// Increments, and yields the processor while it holds the lock, so that others find the lock held until they sleep.
    func incrementSlowly() {
        lock.withLock {
            let before = count
            for _ in 0..<20 { sched_yield() }
            count = before + 1
        }
    }

    /// Increments, and goes to sleep at once when the lock is held.
    func incrementSleepily() {
        lock.lockSlowly(spins: 0)
        count += 1
        lock.unlock()
    }
}

/// Uses more threads than processors. Some threads go to sleep just when others unlock.
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

    // Two threads in step: no third thread could wake the sleeping one later.
    let pair = Counter()
    let pace = Pace(threads: 2)
    // On a busy processor, a round may take both threads a time slice.
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
