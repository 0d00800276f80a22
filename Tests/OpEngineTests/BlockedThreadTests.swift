import CTestSupport
import Dispatch
import Glibc
import OpPlatform
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

/// Bodies that block in calls that the engine is not told about.
@Suite struct BlockedThreadTests {
    /// Makes both workers of an engine block in `block` until another operation calls `release` once for each of them. That operation runs
    /// only if the engine starts a third thread.
    private func expectOthersToRun(
        maximum: Int = -1, while block: @escaping @Sendable () -> Void, release: @escaping @Sendable () -> Void
    ) {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = maximum
        let began = Gate()
        for _ in 0..<2 {
            queue.addOperation {
                began.open()
                block()
            }
        }
        began.wait(2)
        queue.addOperation {
            release()
            release()
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 3)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test(arguments: [-1, 3]) func semaphoresOfDispatch(maximum: Int) {
        let semaphore = DispatchSemaphore(value: 0)
        expectOthersToRun(maximum: maximum, while: { semaphore.wait() }, release: { semaphore.signal() })
    }

    @Test func locksAndConditions() {
        let gate = Gate()
        expectOthersToRun(while: { gate.wait() }, release: { gate.open() })
    }

    @Test func pipes() {
        var ends: [Int32] = [0, 0]
        // Safety: here and below, the argument is a local variable that outlives the call.
        let made = unsafe pipe(&ends)
        #expect(made == 0)
        let (read, write) = (ends[0], ends[1])
        expectOthersToRun(
            while: {
                var byte: UInt8 = 0
                let count = unsafe Glibc.read(read, &byte, 1)
                #expect(count == 1)
            },
            release: {
                var byte: UInt8 = 1
                let count = unsafe Glibc.write(write, &byte, 1)
                #expect(count == 1)
            })
        close(read)
        close(write)
    }

    @Test func namedPipes() throws {
        try withTemporaryFile { path in
            unsafe unlink(path)
            let made = unsafe mkfifo(path, 0o600)
            #expect(made == 0)
            let isWritten = Locked(false)
            // Opening one end of a FIFO blocks until another thread opens the other end.
            expectOthersToRun(
                while: { close(unsafe open(path, O_RDONLY)) },
                release: {
                    let wasWritten = isWritten.withLock { exchange(&$0, with: true) }
                    if !wasWritten { close(unsafe open(path, O_WRONLY)) }
                })
        }
    }

    @Test func locksOfFiles() throws {
        try withTemporaryFile { path in
            let owner = unsafe open(path, O_RDWR)
            #expect(flock(owner, LOCK_EX) == 0)
            let released = Locked(false)
            expectOthersToRun(
                while: {
                    let mine = unsafe open(path, O_RDWR)
                    #expect(flock(mine, LOCK_EX) == 0)
                    close(mine)
                },
                release: {
                    let wasReleased = released.withLock { exchange(&$0, with: true) }
                    if !wasReleased { close(owner) }
                })
        }
    }

    @Test(.endsWithin(seconds: 60)) func timeLimitsOfTheKernel() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let (mayEnd, isAwake) = (Locked(false), Gate())
        queue.addOperation {
            while !mayEnd.withLock({ $0 }) { poll(nil, 0, 20) }
            isAwake.open()
        }
        queue.addOperation { mayEnd.withLock { $0 = true } }
        isAwake.wait()
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 2)
    }

    /// A page that does not exist yet. Safety: `@unchecked Sendable` because it is a constant, and the kernel lets two threads use it.
    @safe private final class MissingPage: @unchecked Sendable {
        private let page: OpaquePointer

        /// Returns nil when the kernel does not let a process handle its own page faults.
        init?() {
            guard let page = unsafe make_missing_page() else { return nil }
            unsafe self.page = page
        }

        func read() -> CChar? { unsafe address_of_page(page)?.pointee }
        func provide() { unsafe provide_page(page) }

        deinit { unsafe free_page(page) }
    }

    @Test func pageFaults() {
        guard let page = MissingPage() else { return }
        let readers = Locked(2)
        let mayProvide = Locked(true)
        expectOthersToRun(
            while: {
                let byte = page.read()
                #expect(byte == 0)
                readers.withLock { $0 -= 1 }
            },
            release: {
                let isFirst = mayProvide.withLock { exchange(&$0, with: false) }
                if isFirst { page.provide() }
            })
        #expect(readers.withLock { $0 } == 0)
    }

    @Test func onOneProcessor() async {
        await #expect(processExitsWith: .success) {
            #expect(use_one_processor() && Engine.processorCount == 1)
            let queue = OperationQueue()
            let semaphore = DispatchSemaphore(value: 0)
            queue.addOperation { semaphore.wait() }
            queue.addOperation { semaphore.wait() }
            queue.addOperation {
                semaphore.signal()
                semaphore.signal()
            }
            queue.waitUntilAllOperationsAreFinished()
            #expect(Engine.shared.threadCount == 3)
        }
    }

    // MARK: How many

    /// Each body waits until the last one has begun, in a queue whose maximum allows that.
    @Test func asManyAsTheMaximumAllowsForAreThereTogether() {
        let count = TestLength.size(5000)
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = count
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<count {
            queue.addOperation {
                began.open()
                mayEnd.wait()
            }
        }
        began.wait(count)
        // A few threads may start slightly too early and find nothing to do.
        #expect(engine.threadCount <= count + 32)
        mayEnd.open(count)
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func noMoreThanTheLimit() {
        let engine = Engine(workerCount: 1, threadLimit: 3)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<5 {
            queue.addOperation {
                began.open()
                mayEnd.wait()
            }
        }
        began.wait(3)
        #expect(engine.threadCount == 3)
        mayEnd.open(5)
        began.wait(2)
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 3)
    }

    /// The system has no memory for more stacks. The pool goes on with the threads it has.
    @Test func noMoreThanTheSystemAllowsFor() async {
        if has_address_sanitizer() || has_thread_sanitizer() { return }
        await #expect(processExitsWith: .success) {
            let queue = OperationQueue(engine: Engine(workerCount: 2))
            queue.maxConcurrentOperationCount = 1000
            queue.addOperations([BlockOperation {}], waitUntilFinished: true)
            #expect(limit_address_space(512 << 20))
            let ran = Log<Int>()
            for number in 0..<200 {
                queue.addOperation {
                    poll(nil, 0, 5)
                    ran.append(number)
                }
            }
            queue.waitUntilAllOperationsAreFinished()
            #expect(ran.count == 200 && queue.engine.threadCount < 200)
        }
    }

    private static func compute(milliseconds: Int) {
        var (start, now) = (timespec(), timespec())
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start)
        repeat {
            unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        } while (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1_000_000 < milliseconds
    }

    /// This holds for any maximum, even when more threads compute than there are processors.
    ///
    /// The test has its own process: threads of other tests could hold a lock of the allocator or the kernel while they wait for a
    /// processor. A sanitizer takes such locks, too.
    @Test func bodiesThatComputeAreNotReplaced() async {
        await #expect(processExitsWith: .success) {
            for maximum in [-1, 1000] {
                let engine = Engine(workerCount: 4)
                let queue = OperationQueue(engine: engine)
                queue.maxConcurrentOperationCount = maximum
                let operations = (0..<1000).map { _ in BlockOperation { BlockedThreadTests.compute(milliseconds: 1) } }
                queue.addOperations(operations, waitUntilFinished: true)
                let isSanitized = has_address_sanitizer() || has_thread_sanitizer()
                #expect(isSanitized ? engine.threadCount <= 8 : engine.threadCount == 4)
            }
        }
    }

    /// A worker that was blocked and now computes counts as running again, at the latest when its operation has ended.
    @Test func whoComesBackIsOneTooMany() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 100
        let (began, mayGoOn) = (Gate(), Gate())
        for _ in 0..<3 {
            queue.addOperation {
                began.open()
                mayGoOn.wait()
            }
        }
        began.wait(3)
        mayGoOn.open(3)
        let (executing, most) = (Locked(0), Locked(0))
        let computing = OperationQueue(engine: engine)
        expectRest(of: engine)
        for _ in 0..<200 {
            computing.addOperation {
                let now = executing.withLock { executing -> Int in
                    executing += 1
                    return executing
                }
                most.withLock { $0 = max($0, now) }
                BlockedThreadTests.compute(milliseconds: 1)
                executing.withLock { $0 -= 1 }
            }
        }
        computing.waitUntilAllOperationsAreFinished()
        // The sanitizer's own work may block a body.
        let isSanitized = has_address_sanitizer() || has_thread_sanitizer()
        #expect(most.withLock { $0 } <= (isSanitized ? 2 : 1))
    }

    // MARK: Stalls and quiescence

    /// A blocking call will return at some time, so it is no stall.
    @Test func aBlockedBodyIsNoStall() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd) = (Gate(), Gate())
        let blocked = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        let other = BlockOperation {}
        queue.addOperations([blocked, other], waitUntilFinished: false)
        began.wait()
        try other.tryWaitUntilFinished()
        #expect(!engine.isQuiescent)
        _ = TestThread { mayEnd.open() }
        try queue.tryWaitUntilAllOperationsAreFinished()
        expectRest(of: engine)
    }

    /// When a blocked body starts a wait that the engine knows, it is no longer blocked, and a wait that can never end is refused.
    @Test func aWaitOfOneThatWasBlockedCanStall() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let queue = OperationQueue(engine: engine)
        let (gate, refusals) = (Gate(), Log<String>())
        let never = BlockOperation {}
        queue.addOperation {
            gate.wait()
            do { try never.tryWaitUntilFinished() } catch { refusals.append("\(error)") }
        }
        queue.addOperation { gate.open() }
        try queue.tryWaitUntilAllOperationsAreFinished()
        #expect(refusals.count == 1)
    }

    /// A blocked body that also waits in a way that the engine knows counts only once.
    @Test func oneThatIsBlockedMayWaitAsWell() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        for _ in 0..<20 {
            let first = BlockOperation {}
            let operations = (0..<8).map { _ in
                BlockOperation {
                    poll(nil, 0, 1)
                    _ = try Engine.blocking { try first.tryWaitUntilFinished() }
                }
            }
            queue.addOperations(operations, waitUntilFinished: false)
            queue.addOperation(first)
            queue.waitUntilAllOperationsAreFinished()
        }
        expectRest(of: engine)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    /// The worker that has run an operation takes the next one itself. The queue was scheduled for that one, and has nothing left to run.
    @Test(.endsWithin(seconds: 60)) func aQueueWithNothingToRunLeavesTheLine() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let (hasLeft, log) = (Locked(false), Log<String>())
        let first = BlockOperation {}
        first.whenFinished {
            queue.addOperation {
                log.append("second")
                while !hasLeft.withLock({ $0 }) {}
                log.append("end of second")
            }
        }
        queue.addOperation(first)
        while log.entries.isEmpty {}
        while engine.pool.withLock({ $0.hasScheduled }) {}
        // The queue is scheduled again.
        queue.addOperation { log.append("third") }
        #expect(engine.pool.withLock { $0.hasScheduled })
        hasLeft.withLock { $0 = true }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["second", "end of second", "third"])
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    /// Waits until every worker has noticed that it is no longer blocked.
    private func expectRest(of engine: Engine) {
        let end = ContinuousClock.now + .seconds(10)
        while !engine.isQuiescent, ContinuousClock.now < end {
            _ = engine.mainInbox.run(until: { engine.isQuiescent }, deadline: .now + .milliseconds(1))
        }
        #expect(engine.isQuiescent)
    }

    private func withTemporaryFile(_ body: (String) throws -> Void) throws {
        var template = Array("/tmp/opengine-XXXXXX".utf8CString)
        let descriptor = unsafe mkstemp(&template)
        try #require(descriptor >= 0)
        close(descriptor)
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer { unsafe unlink(path) }
        try body(path)
    }
}
