import OpEngine
import Synchronization
import TestSupport
import Testing

@Suite struct ObservationTests {
    private func queue(_ workers: Int = 2) -> OperationQueue { OperationQueue(engine: Engine(workerCount: workers)) }

    @Test func theInitialValueAndEachChangeAreTold() {
        let log = Log<String>()
        let operation = BlockOperation { log.append("body") }
        let token = operation.observe(\.isFinished, options: [.old, .new, .initial, .prior]) { observed, change in
            let (old, new) = (String(describing: change.oldValue), String(describing: change.newValue))
            log.append("\(observed === operation) \(old) \(new) \(change.isPrior)")
        }
        operation.start()
        #expect(
            log.entries == [
                "true nil Optional(false) false", "body", "true Optional(false) nil true", "true Optional(false) Optional(true) false",
            ])
        token.invalidate()
    }

    @Test func valuesComeOnlyWithTheirOptions() {
        let log = Log<Bool>()
        let operation = Operation()
        let token = operation.observe(\.isFinished) { _, change in
            log.append(change.oldValue == nil && change.newValue == nil && change.kind == .setting)
        }
        operation.start()
        #expect(log.entries == [true])
        token.invalidate()
    }

    @Test func flagsOfARunComeInOrder() {
        let log = Log<String>()
        let queue = queue()
        let gate = Gate()
        let first = BlockOperation { gate.wait() }
        let operation = BlockOperation { log.append("body") }
        operation.addDependency(first)
        let tokens = [
            operation.observe(\.isReady, options: .new) { log.append("ready \($1.newValue!)") },
            operation.observe(\.isFinished, options: .new) { log.append("finished \($1.newValue!)") },
            operation.observe(\.isExecuting, options: .new) { log.append("executing \($1.newValue!)") },
            operation.observe(\.isCancelled, options: .new) { log.append("cancelled \($1.newValue!)") },
        ]
        operation.completionBlock = { log.append("completed") }
        queue.addOperations([first, operation], waitUntilFinished: false)
        gate.open()
        queue.waitUntilAllOperationsAreFinished()
        operation.waitUntilFinished()
        #expect(queue.engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["ready true", "executing true", "body", "executing false", "finished true", "completed"])
        for token in tokens { token.invalidate() }
    }

    @Test func cancellingTellsCancelledThenReady() {
        let log = Log<String>()
        let operation = Operation()
        operation.addDependency(Operation())
        let tokens = ["ready", "isCancelled", "finished", "isExecuting"].map { key in
            operation.observe(keyPath: key, options: [.new, .old]) { change in
                log.append("\(key) \(change.oldValue as? Bool == true) \(change.newValue as? Bool == true)")
            }
        }
        operation.cancel()
        operation.cancel()
        operation.start()
        #expect(log.entries == ["isCancelled false true", "ready false true", "finished false true"])
        withExtendedLifetime(tokens) {}
    }

    /// Conditions in Apple's style are evaluated at this notice.
    @Test func cancellingTellsReadyAlsoIfItWasReadyButNotOnceItHasStarted() {
        // Safety: the class has no state.
        final class NeverReady: Operation, @unchecked Sendable {
            override var isReady: Bool { false }
        }
        let (log, queue, began) = (Log<String>(), queue(), Gate())
        let (ready, own, executing) = (Operation(), NeverReady(), BlockOperation { began.open() })
        executing.addExecutionBlock { [unowned executing] in executing.cancel() }
        let tokens = [("ready", ready), ("own", own), ("executing", executing)].map { name, operation in
            operation.observe(\.isReady, options: [.old, .new]) { log.append("\(name) \($1.oldValue!) \($1.newValue!)") }
        }
        ready.cancel()
        own.cancel()
        queue.addOperation(executing)
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["ready true true", "own false false"] && executing.isCancelled)
        for token in tokens { token.invalidate() }
    }

    @Test func anObserverMayWaitForAnOperationThatWasReleasedWithItsOwn() {
        let (queue, other, ran) = (queue(), OperationQueue(engine: Engine(workerCount: 1)), Gate(seconds: 60))
        other.isSuspended = true
        let (first, released, observed) = (BlockOperation {}, BlockOperation { ran.open() }, Operation())
        released.addDependency(first)
        observed.addDependency(first)
        let token = observed.observe(\.isReady) { _, _ in ran.wait() }
        other.addOperation(observed)
        queue.addOperations([first, released], waitUntilFinished: true)
        #expect(released.outcome == .succeeded)
        token.invalidate()
        other.isSuspended = false
        other.waitUntilAllOperationsAreFinished()
    }

    @Test func propertiesTellTheirValues() {
        let log = Log<String>()
        let (operation, dependency) = (Operation(), Operation())
        let tokens = [
            operation.observe(\.name, options: [.old, .new]) { _, change in
                log.append("\(change.oldValue!, default: "nil") \(change.newValue!, default: "nil")")
            },
            operation.observe(\.queuePriority, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") },
            operation.observe(\.dependencies, options: [.old, .new]) { log.append("\($1.oldValue!.count) \($1.newValue!.count)") },
            operation.observe(\.completionBlock, options: [.old, .new]) { log.append("\($1.oldValue! == nil) \($1.newValue! == nil)") },
            operation.observe(\.isAsynchronous, options: [.initial, .new]) { log.append("\($1.newValue!)") },
        ]
        operation.name = "a"
        operation.name = nil
        operation.queuePriority = .high
        operation.queuePriority = .high
        operation.addDependency(dependency)
        operation.addDependency(dependency)
        operation.removeDependency(dependency)
        operation.removeDependency(dependency)
        operation.completionBlock = {}
        operation.start()
        #expect(
            log.entries == [
                "false", "nil a", "a nil", "normal high", "high high", "0 1", "1 0", "true false", "false true",
            ])
        for token in tokens { token.invalidate() }
    }

    @Test func dependenciesChangeReadiness() {
        let log = Log<Bool>()
        let (operation, a, b) = (Operation(), Operation(), Operation())
        let token = operation.observe(\.isReady, options: [.initial, .new]) { log.append($1.newValue!) }
        operation.addDependency(a)
        operation.addDependency(b)
        operation.removeDependency(a)
        b.start()
        #expect(log.entries == [true, false, true])
        token.invalidate()
    }

    @Test func aTokenThatGoesStopsObserving() {
        let log = Log<Int>()
        let operation = Operation()
        _ = operation.observe(\.name) { _, _ in log.append(1) }
        operation.name = "a"
        var token: NSKeyValueObservation? = operation.observe(\.name) { _, _ in log.append(2) }
        operation.name = "b"
        withExtendedLifetime(token) {}
        token = nil
        operation.name = "c"
        #expect(log.entries == [2])
    }

    @Test func anObserverMayOutliveItsOperationAndKeepsNothing() {
        weak var held: Operation?
        var token: KeyValueObservation?
        do {
            let operation = Operation()
            held = operation
            token = operation.observe(\.isFinished) { _, _ in }
        }
        #expect(held == nil)
        token?.invalidate()
        token?.invalidate()
    }

    @Test func anObserverMayCallAnything() {
        let queue = queue(1)
        let log = Log<String>()
        let holder = Locked<[KeyValueObservation]>([])
        let returned = Gate()
        let operation = BlockOperation {}
        let second = BlockOperation { log.append("second ran") }
        second.addDependency(operation)
        let token = operation.observe(\.isFinished) { operation, _ in
            log.append("finished, \(queue.operations.count) left")
            let inner = operation.observe(\.isFinished, options: [.initial, .new]) { log.append("inner \($1.newValue!)") }
            operation.name = "changed in the observer"
            second.waitUntilFinished()
            queue.addOperations([BlockOperation { log.append("added") }], waitUntilFinished: true)
            inner.invalidate()
            holder.withLock { $0.removeAll() }
            returned.open()
        }
        holder.withLock { $0.append(token) }
        queue.isSuspended = true
        queue.addOperations([operation, second], waitUntilFinished: false)
        queue.isSuspended = false
        returned.wait()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["finished, 1 left", "inner true", "second ran", "added"])
        #expect(queue.engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(holder.withLock { $0.isEmpty })
    }

    @Test func aChangeMadeByAnObserverComesAfterTheOneItIsTold() {
        let log = Log<String>()
        let operation = Operation()
        let first = operation.observe(\.name, options: .new) { operation, change in
            if change.newValue == "a" { operation.name = "b" }
            log.append("1 \(change.newValue!!)")
        }
        let second = operation.observe(\.name, options: .new) { log.append("2 \($1.newValue!!)") }
        operation.name = "a"
        #expect(log.entries == ["1 a", "2 a", "1 b", "2 b"])
        first.invalidate()
        second.invalidate()
    }

    @Test func theFirstCallIsMadeBeforeObserveReturnsAlsoWhileAnotherThreadTells() {
        let log = Log<String>()
        let operation = Operation()
        let (told, mayReturn) = (Gate(), Gate())
        let slow = operation.observe(\.name, options: .new) { _, change in
            log.append("slow \(change.newValue!!)")
            told.open()
            mayReturn.wait()
        }
        let thread = TestThread { operation.name = "a" }
        told.wait()
        operation.name = "b"
        let token = operation.observe(\.name, options: [.initial, .new]) { log.append("late \($1.newValue!!)") }
        #expect(log.entries == ["slow a", "late b"])
        operation.name = "c"
        mayReturn.open(3)
        thread.join()
        #expect(log.entries == ["slow a", "late b", "slow b", "slow c", "late c"])
        slow.invalidate()
        token.invalidate()
    }
}
