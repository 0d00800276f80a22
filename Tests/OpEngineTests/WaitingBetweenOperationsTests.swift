import OpEngine
import TestSupport
import Testing

/// What may wait, or end something, on a worker's thread outside of the bodies of operations.
@Suite struct WaitingBetweenOperationsTests {
    private let engine = Engine(workerCount: 2)
    private let log = Log<Bool>()

    /// A queue in which one operation runs at a time.
    private func serial() -> OperationQueue {
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 1
        return queue
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

    /// A job that a worker runs between two operations of a queue.
    @Test func aJobBetweenTwoOperationsMayWaitForTheNext() {
        let queue = serial()
        let (done, second) = (Gate(), BlockOperation {})
        let first = Overriding { [log] in
            Worker.current!.inbox.post {
                log.append((try? second.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
                done.open()
            }
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries == [true])
    }

    /// The end of an operation.
    @Test func theDeinitOfAnOperationMayWaitForTheNext() {
        let queue = serial()
        let (done, second) = (Gate(), BlockOperation {})
        queue.isSuspended = true
        queue.addOperation(
            OnDeinit { [log] in
                log.append((try? second.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
                done.open()
            })
        queue.addOperation(second)
        queue.isSuspended = false
        done.wait()
        #expect(log.entries == [true])
    }

    /// An observer of a dependent.
    @Test func whoObservesADependentMayWaitForTheNext() {
        let queue = serial()
        let (first, second, dependent) = (Overriding {}, BlockOperation {}, BlockOperation {})
        dependent.addDependency(first)
        let done = Gate()
        let token = dependent.observe(\.isReady, options: .new) { [log] _, _ in
            log.append((try? second.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
            done.open()
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries.first == true)
        token.invalidate()
    }

    /// An override of `start` that goes on after `super.start()`.
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
            log.append((try? second.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
            done.open()
        }
        queue.addOperations([first, second], waitUntilFinished: false)
        done.wait()
        #expect(log.entries == [true])
    }

    private final class Flushing: OperationObserver {
        let other: OperationQueue
        let log: Log<Bool>
        let done: Gate
        init(_ other: OperationQueue, _ log: Log<Bool>, _ done: Gate) { (self.other, self.log, self.done) = (other, log, done) }
        func operationChanged(_ event: OperationEvent) {}
        deinit {
            let last = BlockOperation {}
            other.addOperation(last)
            log.append((try? last.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
            done.open()
        }
    }

    /// A worker that lingers at a queue, or is about to sleep, is the last who holds it.
    @Test(arguments: [1, 2]) func theObserverOfAQueueThatGoesMayWait(workers: Int) {
        let engine = Engine(workerCount: workers)
        let other = OperationQueue(engine: engine)
        for _ in 0..<300 {
            let done = Gate()
            var queue: OperationQueue? = OperationQueue(engine: engine)
            for _ in 0..<3 { queue!.addOperation {} }
            queue!.addObserver(Flushing(other, log, done))
            queue!.waitUntilAllOperationsAreFinished()
            queue = nil
            done.wait()
            #expect(log.entries.last == true)
            if log.entries.last == false { return }
        }
    }

    /// A worker goes from a queue that nobody holds any more to another one.
    @Test func theObserverOfAQueueThatGoesMayWaitForTheNextQueue() {
        final class Waiting: OperationObserver {
            let second: Operation
            let log: Log<Bool>
            let done: Gate
            init(_ second: Operation, _ log: Log<Bool>, _ done: Gate) { (self.second, self.log, self.done) = (second, log, done) }
            func operationChanged(_ event: OperationEvent) {}
            deinit {
                log.append((try? second.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
                done.open()
            }
        }
        let engine = Engine(workerCount: 1)
        let (mayEnd, done, second) = (Gate(), Gate(), BlockOperation {})
        let other = OperationQueue(engine: engine)
        var queue: OperationQueue? = OperationQueue(engine: engine)
        queue!.addObserver(Waiting(second, log, done))
        queue!.addOperation { mayEnd.wait() }
        other.addOperation(second)
        queue = nil
        mayEnd.open()
        done.wait()
        #expect(log.entries == [true])
    }

    /// The value before an announced change goes with a lock held.
    @Test func theOldValueOfAnAnnouncedChangeMayUseTheOperation() {
        final class Value: Sendable {
            let operation: Operation
            init(_ operation: Operation) { self.operation = operation }
            deinit { operation.cancel() }
        }
        final class Observable: Operation, @unchecked Sendable {
            // Safety: what changes has a lock.
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
        let done = Gate()
        let thread = TestThread {
            let operation = Observable()
            let token = operation.observe(\.isFinished) { _, _ in }
            operation.thing = Value(operation)
            operation.thing = nil
            done.open()
            token.invalidate()
        }
        done.wait()
        thread.join()
    }

    private struct Inline: OperationExecutor {
        func execute(_ job: @escaping @Sendable () -> Void) { job() }
    }

    /// An executor that runs its jobs at once; one waits for another that was released with it.
    @Test func anInlineExecutorMayRunWhatWaitsForItsSibling() {
        let (inline, queue) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        inline.underlyingQueue = Inline()
        let (first, sibling) = (AsyncOperation(), BlockOperation {})
        let waiting = BlockOperation { [log] in
            log.append((try? sibling.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
        }
        waiting.addDependency(first)
        sibling.addDependency(first)
        queue.addOperations([first, sibling], waitUntilFinished: false)
        inline.addOperation(waiting)
        first.finish()
        waiting.waitUntilFinished()
        #expect(log.entries == [true])
    }

    /// The same with the hook of a host's loop, where it is on the thread.
    @Test func aHookThatDrainsMayRunWhatWaitsForItsSibling() {
        let queue = OperationQueue(engine: engine)
        engine.mainInbox.onWake = { [engine] in _ = engine.mainInbox.drain() }
        let (first, sibling) = (AsyncOperation(), BlockOperation {})
        let waiting = BlockOperation { [log] in
            log.append((try? sibling.tryWaitUntilFinished(until: .now + .seconds(30))) ?? false)
        }
        waiting.addDependency(first)
        sibling.addDependency(first)
        queue.addOperations([first, sibling], waitUntilFinished: false)
        engine.mainQueue.addOperation(waiting)
        first.finish()
        engine.mainInbox.onWake = nil
        waiting.waitUntilFinished()
        #expect(log.entries == [true])
    }
}
