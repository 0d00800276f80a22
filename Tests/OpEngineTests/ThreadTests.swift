import CTestSupport
import Glibc
import OpPlatform
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

@Suite struct ThreadTests {
    /// Opens a gate when its last reference is released, on the thread that releases it.
    private final class Opening: Sendable {
        let gate: Gate
        init(_ gate: Gate) { self.gate = gate }
        deinit { gate.open() }
    }

    @Test(.endsWithin(seconds: 60)) func anIdleThreadEndsAndTheNextWorkGetsAnother() {
        let engine = Engine(workerCount: 1, idleTime: .zero)
        let queue = OperationQueue(engine: engine)
        let numbers = Log<Int>()
        for _ in 0..<2 {
            let ended = Gate()
            queue.addOperation {
                numbers.append(Worker.current!.number)
                Worker.current!.context = Opening(ended)
            }
            ended.wait()
            #expect(engine.threadCount == 0)
        }
        #expect(numbers.entries == [1, 2])
    }

    /// The monitor decides to replace a worker a moment after it has seen that the worker is busy.
    @Test(.endsWithin(seconds: 60)) func aWorkerThatHasEndedIsNotReplaced() {
        let engine = Engine(workerCount: 1, idleTime: .zero), workers = Log<Worker>(), ended = Gate()
        OperationQueue(engine: engine).addOperation {
            workers.append(Worker.current!)
            Worker.current!.context = Opening(ended)
        }
        ended.wait()
        #expect(engine.pool.withLock { $0.replace(workers.entries[0]) == nil })
        #expect(engine.isQuiescent && engine.pool.withLock(\.awake) == 0)
    }

    @Test(.endsWithin(seconds: 60)) func oneThatHasToStayStays() {
        let engine = Engine(workerCount: 2, idleTime: .zero)
        let queue = OperationQueue(engine: engine)
        let (bothRun, ended) = (Gate(), Gate())
        let together = Gate()
        queue.addOperation {
            Worker.current!.keepsAlive = true
            bothRun.open()
            together.wait()
        }
        queue.addOperation {
            Worker.current!.context = Opening(ended)
            bothRun.open()
            together.wait()
        }
        bothRun.wait(2)
        #expect(engine.threadCount == 2)
        together.open(2)
        ended.wait()
        #expect(engine.threadCount == 1)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test(.endsWithin(seconds: 60)) func blockedThreadsAreReplacedUpToTheLimit() {
        let engine = Engine(workerCount: 1, threadLimit: 3)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<5 {
            queue.addOperation {
                Engine.blocking {
                    began.open()
                    mayEnd.wait()
                }
            }
        }
        began.wait(3)
        #expect(engine.threadCount == 3 && queue.operations.filter(\.isExecuting).count == 3)
        mayEnd.open(5)
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 3)
    }

    @Test(.endsWithin(seconds: 60)) func atTheLimitAThreadOfAnotherGroupDoesTheWork() {
        let engine = Engine(workerCount: 1, threadLimit: 1)
        let (foreground, background) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        background.qualityOfService = .background
        let log = Log<Int>()
        for round in 0..<10 {
            (round % 2 == 0 ? foreground : background).addOperations(
                [BlockOperation { log.append(Worker.current!.number) }], waitUntilFinished: true)
        }
        #expect(log.entries == Array(repeating: 1, count: 10) && engine.threadCount == 1)
    }

    @Test(.endsWithin(seconds: 60)) func twoHundredSleepersAllStart() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<200 {
            queue.addOperation {
                Engine.blocking {
                    began.open()
                    mayEnd.wait()
                }
            }
        }
        began.wait(200)
        mayEnd.open(200)
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test(.endsWithin(seconds: 60)) func shutdownWaitsForAThreadThatHasRetired() {
        /// Data that a higher layer keeps on the thread and that takes time to clean up.
        final class Slow: Sendable {
            let begins: Gate
            let log: Log<String>
            init(_ begins: Gate, _ log: Log<String>) {
                self.begins = begins
                self.log = log
            }
            deinit {
                begins.open()
                for _ in 0..<300 { sched_yield() }
                log.append("gone")
            }
        }
        let engine = Engine(workerCount: 1, idleTime: .zero)
        let (begins, log) = (Gate(), Log<String>())
        OperationQueue(engine: engine).addOperation { Worker.current!.context = Slow(begins, log) }
        begins.wait()
        #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        log.append("shut down")
        #expect(log.entries == ["gone", "shut down"])
    }

    /// A host whose standard output is closed ends with the system's default signal, no matter which thread writes.
    @Test func writingToAClosedPipeIsASignal() async {
        await #expect(processExitsWith: .signal(SIGPIPE)) {
            var ends: [Int32] = [-1, -1]
            guard unsafe pipe(&ends) == 0 else { return }
            close(ends[0])
            let (end, engine) = (ends[1], Engine(workerCount: 1))
            OperationQueue(engine: engine).addOperations(
                [BlockOperation { _ = unsafe write(end, "x", 1) }], waitUntilFinished: true)
        }
    }

    /// Makes a worker whose nice value is raised start another worker. Returns whether both have run. The threads of the engine have ended by then:
    /// a process that is forked while one of them holds a lock of Swift's runtime would wait for that lock for ever.
    private static func waitAcrossQualities() -> Bool {
        let engine = Engine(workerCount: 1)
        let (slow, usual) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        slow.qualityOfService = .utility
        let inner = BlockOperation {}
        let outer = BlockOperation {
            usual.addOperation(inner)
            inner.waitUntilFinished()
        }
        slow.addOperation(outer)
        return (try? outer.tryWaitUntilFinished(until: .now + .seconds(20))) == true && engine.shutdown(deadline: .seconds(20)).isEmpty
    }

    @Test func aForkedProcessStartsThreadsOfEveryQuality() async {
        await #expect(processExitsWith: .success) {
            #expect(ThreadTests.waitAcrossQualities())
            var text = [CChar](repeating: 0, count: 1000)
            let status = unsafe fork_and_call(
                { _ in _exit(ThreadTests.waitAcrossQualities() ? 0 : 1) }, nil, &text, text.count)
            #expect(status == 0)
        }
    }

    /// See `exit_test.c`.
    @Test func theProcessOfAnExitTestDoesNotLastForEver() async {
        await #expect(processExitsWith: .success) { #expect(alarm(300) > 0) }
    }

    @Test("A test that waits for ever ends the run, and is named")
    func aLimitOfATest() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await EndsWithin.watch("endless", seconds: 0) { Gate().wait() }
        }
        let said = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(said.contains("the test 'endless' did not end within 0 seconds"))
    }

    @Test func shutdownEndsWhatAMaximumOf0Held() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 0
        let operations = (0..<3).map { _ in Operation() }
        queue.addOperations(operations, waitUntilFinished: false)
        queue.addBarrierBlock {}
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(operations.allSatisfy { $0.isCancelled && $0.isFinished } && queue.maxConcurrentOperationCount == 0)
    }

    @Test func anEngineThatIsShutDownLeavesTheOthersAlone() {
        let (first, second) = (Engine(workerCount: 2), Engine(workerCount: 2))
        let log = Log<String>()
        for engine in [first, second] {
            let queue = OperationQueue(engine: engine)
            queue.qualityOfService = .utility
            queue.addOperations([BlockOperation { log.append("ran") }], waitUntilFinished: true)
        }
        #expect(first.shutdown(deadline: .seconds(10)).isEmpty && first.threadCount == 0)
        OperationQueue(engine: second).addOperations([BlockOperation { log.append("still") }], waitUntilFinished: true)
        #expect(log.entries == ["ran", "ran", "still"])
    }
}
