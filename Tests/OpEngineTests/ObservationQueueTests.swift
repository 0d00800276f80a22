import OpEngine
import TestSupport
import Testing

@Suite struct ObservationQueueTests {
    @Test func settingsTellTheirValues() throws {
        let log = Log<String>()
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let tokens = [
            queue.observe(\.isSuspended, options: [.old, .new, .initial]) { log.append("\($1.oldValue, default: "nil") \($1.newValue!)") },
            queue.observe(\.maxConcurrentOperationCount, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") },
            queue.observe(\.name, options: [.old, .new, .prior]) { log.append("\($1.isPrior) \($1.oldValue!, default: "nil")") },
            queue.observe(keyPath: "suspended", options: .new) { log.append("\($0.newValue as! Bool)") },
        ]
        queue.isSuspended = true
        queue.maxConcurrentOperationCount = 3
        queue.maxConcurrentOperationCount = -1
        let byDefault = try #require(queue.name)
        queue.name = "a"
        #expect(log.entries == ["nil false", "false true", "true", "-1 3", "3 -1", "true \(byDefault)", "false \(byDefault)"])
        for token in tokens { token.invalidate() }
        queue.isSuspended = false
        #expect(log.count == 7)
    }

    @Test func operationsAndTheirCountAreTold() {
        let engine = Engine(workerCount: 1)
        let log = Log<String>()
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let operations = (0..<3).map { _ in BlockOperation {} }
        queue.addOperation(operations[0])
        let tokens = [
            queue.observe(\.operations, options: [.old, .new]) { log.append("\($1.oldValue!.count) to \($1.newValue!.count)") },
            queue.observe(\.operationCount, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") },
        ]
        queue.addOperations(Array(operations[1...]), waitUntilFinished: false)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["1 to 3", "1 3", "3 to 2", "3 2", "2 to 1", "2 1", "1 to 0", "1 0"])
        for token in tokens { token.invalidate() }
    }

    @Test func aQueuesObserverMayWaitForWhatTheEndReleases() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let log = Log<Int>()
        let told = Gate()
        let (first, second) = (BlockOperation {}, BlockOperation {})
        second.addDependency(first)
        queue.isSuspended = true
        queue.addOperations([first, second], waitUntilFinished: false)
        let token = queue.observe(\.operationCount, options: .new) { _, change in
            if change.newValue == 1 { second.waitUntilFinished() }
            log.append(change.newValue!)
            told.open()
        }
        queue.isSuspended = false
        told.wait(2)
        #expect(log.entries == [1, 0])
        token.invalidate()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func progressCountsEveryKindOfEnd() {
        struct Failure: Error {}
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let progress = queue.progress
        #expect(progress === queue.progress && progress.isIndeterminate && progress.fractionCompleted == 0 && !progress.isFinished)
        queue.isSuspended = true
        let (asynchronous, cancelled) = (AsyncOperation(), BlockOperation {})
        queue.addOperations([asynchronous, cancelled, BlockOperation { throw Failure() }], waitUntilFinished: false)
        queue.addOperation {}
        cancelled.cancel()
        #expect(progress.totalUnitCount == 4 && progress.completedUnitCount == 0)
        let log = Log<Double>()
        let token = progress.observe(\.fractionCompleted, options: [.initial, .new]) { log.append($1.newValue!) }
        queue.isSuspended = false
        asynchronous.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(progress.totalUnitCount == 4 && progress.completedUnitCount == 4 && progress.fractionCompleted == 1 && progress.isFinished)
        queue.addOperations([BlockOperation {}], waitUntilFinished: true)
        #expect(progress.totalUnitCount == 5 && progress.completedUnitCount == 5)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == [0, 0.25, 0.5, 0.75, 1, 0.8, 1])
        token.invalidate()
    }

    @Test func theProgressOfAQueueIsObservedAlsoThroughTheQueue() {
        // Safety: nothing is added.
        final class Subclass: OperationQueue, @unchecked Sendable {}
        let engine = Engine(workerCount: 1)
        let queue = Subclass(engine: engine)
        let (direct, inherited, own, byString) = (Log<String>(), Log<String>(), Log<String>(), Log<String>())
        func told<Object, Value>(_ log: Log<String>, _ name: String) -> @Sendable (Object, KeyValueObservedChange<Value>) -> Void {
            { _, change in if "\(change.oldValue!)" != "\(change.newValue!)" { log.append("\(name) \(change.newValue!)") } }
        }
        func toldByString(_ name: String) -> @Sendable (KeyValueObservedChange<any Sendable>) -> Void {
            { change in
                let new = (change.newValue as? Double).map { "\($0)" } ?? "\(change.newValue as! Bool)"
                if new != ((change.oldValue as? Double).map { "\($0)" } ?? "\(change.oldValue as! Bool)") {
                    byString.append("\(name) \(new)")
                }
            }
        }
        let options: KeyValueObservingOptions = [.old, .new]
        let tokens = [
            queue.progress.observe(\.totalUnitCount, options: options, changeHandler: told(direct, "total")),
            queue.progress.observe(\.completedUnitCount, options: options, changeHandler: told(direct, "completed")),
            queue.progress.observe(\.fractionCompleted, options: options, changeHandler: told(direct, "fraction")),
            queue.progress.observe(\.isFinished, options: options, changeHandler: told(direct, "finished")),
            queue.progress.observe(\.isIndeterminate, options: options, changeHandler: told(direct, "indeterminate")),
            queue.observe(\.progress.fractionCompleted, options: options, changeHandler: told(inherited, "fraction")),
            queue.observe(\.progress.isFinished, options: options, changeHandler: told(inherited, "finished")),
            queue.observe(\Subclass.progress.fractionCompleted, options: options, changeHandler: told(own, "fraction")),
            queue.observe(\Subclass.progress.isFinished, options: options, changeHandler: told(own, "finished")),
            queue.observe(keyPath: "progress.fractionCompleted", options: options, changeHandler: toldByString("fraction")),
            queue.observe(keyPath: "progress.isFinished", options: options, changeHandler: toldByString("finished")),
        ]
        queue.progress.totalUnitCount = 2
        queue.addOperations([BlockOperation {}, BlockOperation {}], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(
            direct.entries == [
                "total 2", "indeterminate false", "completed 1", "fraction 0.5", "completed 2", "finished true", "fraction 1.0",
            ])
        for log in [inherited, own, byString] { #expect(log.entries == ["fraction 0.5", "finished true", "fraction 1.0"]) }
        for token in tokens { token.invalidate() }
    }

    @Test func aTotalThatIsSetHoldsUntilMoreWasAdded() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.progress.totalUnitCount = 2
        #expect(queue.progress.fractionCompleted == 0 && !queue.progress.isIndeterminate)
        queue.addOperations([BlockOperation {}], waitUntilFinished: true)
        #expect(queue.progress.fractionCompleted == 0.5 && !queue.progress.isFinished)
        queue.addOperations([BlockOperation {}, BlockOperation {}], waitUntilFinished: true)
        #expect(queue.progress.totalUnitCount == 3 && queue.progress.isFinished)
        #expect(queue.engine.shutdown(deadline: .seconds(10)).isEmpty)
    }
}
