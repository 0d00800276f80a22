import OpEngine
import TestSupport
import Testing

/// Code outside the bodies of operations may wait on a worker's thread, or end an operation there.
@Suite struct WaitingBetweenOperationsTests {
    private let engine = Engine(workerCount: 2)
    private let log = Log<Bool>()

    /// A queue that runs one operation at a time.
    private func serial() -> OperationQueue {
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 1
        return queue
    }

    /// Waits for `operation` and logs whether it finished.
    private static func wait(for operation: Operation, _ log: Log<Bool>) {
        log.append((try? operation.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
    }

    private final class Overriding: Operation, @unchecked Sendable {
        // Safety: immutable.
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        override func main() { body() }
    }

    private final class OnDeinit: Operation, @unchecked Sendable {
        // Safety: immutable.
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        deinit { body() }
    }

    /// The worker runs the job between two operations of a queue.
    @Test func aJobBetweenTwoOperationsMayWaitForTheNext() {
        let queue = serial()
        let (done, second) = (Gate(), BlockOperation {})
        let first = Overriding { [log] in
            Worker.current!.inbox.post {
                WaitingBetweenOperationsTests.wait(for: second, log)
                done.open()
            }
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries == [true])
    }

    @Test func theDeinitOfAnOperationMayWaitForTheNext() {
        let queue = serial()
        let (done, second) = (Gate(), BlockOperation {})
        queue.isSuspended = true
        queue.addOperation(
            OnDeinit { [log] in
                WaitingBetweenOperationsTests.wait(for: second, log)
                done.open()
            })
        queue.addOperation(second)
        queue.isSuspended = false
        done.wait()
        #expect(log.entries == [true])
    }

    /// The block gives its own operation a dependency, which is released with the operation.
    @Test func aDependencyThatABlockAddedMayWaitForTheNextWhenItGoes() {
        let second = BlockOperation {}
        runInTurn(firstReleasing: { [log] in WaitingBetweenOperationsTests.wait(for: second, log) }, second)
        #expect(log.entries == [true])
    }

    @Test func theNextOperationMayWaitUntilADependencyGoesThatABlockAdded() {
        let released = Gate()
        runInTurn(firstReleasing: { released.open() }, BlockOperation { released.wait() })
    }

    /// Runs a block and an operation, one after the other. `release` is called when the operation of the block is released.
    private func runInTurn(firstReleasing release: @escaping @Sendable () -> Void, _ second: Operation) {
        let queue = serial(), done = Gate()
        queue.isSuspended = true
        queue.addOperation {
            Operation.current?.addDependency(
                OnDeinit {
                    release()
                    done.open()
                })
        }
        queue.addOperation(second)
        queue.isSuspended = false
        done.wait()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func whoObservesADependentMayWaitForTheNext() {
        let queue = serial()
        let (first, second, dependent) = (Overriding {}, BlockOperation {}, BlockOperation {})
        dependent.addDependency(first)
        let done = Gate()
        let token = dependent.observe(\.isReady, options: .new) { [log] _, _ in
            WaitingBetweenOperationsTests.wait(for: second, log)
            done.open()
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries.first == true)
        token.invalidate()
    }

    /// The override of `start` goes on after `super.start()`.
    @Test func anOverrideOfStartMayWaitForTheNext() {
        final class Starting: Operation, @unchecked Sendable {
            // Safety: immutable.
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
            override func start() {
                super.start()
                body()
            }
        }
        let queue = serial()
        let (done, second) = (Gate(), BlockOperation {})
        let first = Starting { [log] in
            WaitingBetweenOperationsTests.wait(for: second, log)
            done.open()
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries == [true])
    }

    /// Waits in its deinitialiser for the operation that `operation` returns.
    private final class Waiting: OperationObserver {
        let log: Log<Bool>
        let done: Gate
        let operation: @Sendable () -> Operation
        init(_ log: Log<Bool>, _ done: Gate, for operation: @escaping @Sendable () -> Operation) {
            (self.log, self.done, self.operation) = (log, done, operation)
        }
        func operationChanged(_ event: OperationEvent) {}
        deinit {
            WaitingBetweenOperationsTests.wait(for: operation(), log)
            done.open()
        }
    }

    /// A worker that spins at the queue or is about to park holds the last reference to it.
    @Test(arguments: [1, 2]) func theObserverOfAQueueThatGoesMayWait(workers: Int) {
        let engine = Engine(workerCount: workers)
        let other = OperationQueue(engine: engine)
        for _ in 0..<300 {
            let done = Gate()
            var queue: OperationQueue? = OperationQueue(engine: engine)
            for _ in 0..<3 { queue!.addOperation {} }
            queue!.addObserver(
                Waiting(log, done) {
                    let last = BlockOperation {}
                    other.addOperation(last)
                    return last
                })
            queue!.waitUntilAllOperationsAreFinished()
            queue = nil
            done.wait()
            if log.entries.last == false { break }
        }
        #expect(!log.entries.contains(false))
    }

    /// The worker leaves a queue that nothing else refers to and turns to the next one.
    @Test func theObserverOfAQueueThatGoesMayWaitForTheNextQueue() {
        let engine = Engine(workerCount: 1)
        let (mayEnd, done, second) = (Gate(), Gate(), BlockOperation {})
        let other = OperationQueue(engine: engine)
        var queue: OperationQueue? = OperationQueue(engine: engine)
        queue!.addObserver(Waiting(log, done) { second })
        queue!.addOperation { mayEnd.wait() }
        other.addOperation(second)
        queue = nil
        mayEnd.open()
        done.wait()
        #expect(log.entries == [true])
    }

    /// The old value of an announced change is released while a lock is held.
    @Test func theOldValueOfAnAnnouncedChangeMayUseTheOperation() {
        final class Value: Sendable {
            let operation: Operation
            init(_ operation: Operation) { self.operation = operation }
            deinit { operation.cancel() }
        }
        final class Observable: Operation, @unchecked Sendable {
            // Safety: the changing part has a lock.
            private let stored = Locked<Value?>(nil)
            var thing: Value? {
                get { stored.withLock { $0 } }
                set {
                    willChangeValue(forKey: "thing")
                    let old = stored.withLock { stored in
                        defer { stored = newValue }
                        return stored
                    }
                    _ = consume old
                    didChangeValue(forKey: "thing")
                }
            }
            override func value(forKey key: String) -> (any Sendable)? { key == "thing" ? thing : super.value(forKey: key) }
        }
        let operation = Observable()
        let token = operation.observe(\.isFinished) { _, _ in }
        // On a separate thread: if it deadlocked, `join` would run into its time limit.
        TestThread {
            operation.thing = Value(operation)
            operation.thing = nil
        }.join()
        #expect(operation.isCancelled)
        token.invalidate()
    }

    private final class Inline: OperationExecutor {
        func execute(_ job: @escaping @Sendable () -> Void) { job() }
    }

    /// The executor runs its jobs at once, on the calling thread.
    @Test func anInlineExecutorMayRunWhatWaitsForItsSibling() {
        let inline = OperationQueue(engine: engine)
        inline.underlyingQueue = Inline()
        expectSiblingsToMeet(in: inline)
    }

    /// The hook drains the inbox at once, on the thread that wakes it.
    @Test func aHookThatDrainsMayRunWhatWaitsForItsSibling() {
        engine.mainInbox.onWake = { [engine] in _ = engine.mainInbox.drain() }
        expectSiblingsToMeet(in: engine.mainQueue)
        engine.mainInbox.onWake = nil
    }

    /// Releases two operations together. The one in `queue` waits for the other.
    private func expectSiblingsToMeet(in queue: OperationQueue) {
        let other = OperationQueue(engine: engine)
        let (first, sibling) = (AsyncOperation(), BlockOperation {})
        let waiting = BlockOperation { [log] in WaitingBetweenOperationsTests.wait(for: sibling, log) }
        waiting.addDependency(first)
        sibling.addDependency(first)
        other.addOperations([first, sibling], waitUntilFinished: false)
        queue.addOperation(waiting)
        first.finish()
        waiting.waitUntilFinished()
        #expect(log.entries == [true])
    }
}
