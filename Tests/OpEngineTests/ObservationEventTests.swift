import OpEngine
import TestSupport
import Testing

private final class Recorder: OperationObserver {
    let log = Log<OperationEvent>()
    func operationChanged(_ event: OperationEvent) { log.append(event) }
    func kinds(of operation: Operation) -> [OperationEvent.Kind] {
        log.entries.filter { $0.operation === operation }.map(\.kind)
    }
}

@Suite struct ObservationEventTests {
    @Test func anOperationsLifeIsToldInOrderWithTimesAndWorkers() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let recorder = Recorder()
        queue.addObserver(recorder)
        queue.addObserver(recorder)
        // The recorder keeps events, and these keep the queue.
        defer { queue.removeObserver(recorder) }
        let (first, second) = (BlockOperation {}, BlockOperation {})
        second.addDependency(first)
        queue.addOperations([second, first], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        for operation in [first, second] {
            #expect(recorder.kinds(of: operation) == [.added, .ready, .started, .finished])
            let events = recorder.log.entries.filter { $0.operation === operation }
            #expect(zip(events, events.dropFirst()).allSatisfy { $0.time <= $1.time })
            #expect(events[0].worker == nil && events[0].queue === queue)
            #expect(events[2].worker != nil && events[2].worker == events[3].worker && events[3].queue === queue)
        }
        let ended = recorder.log.entries.first { $0.operation === first && $0.kind == .finished }
        let began = recorder.log.entries.first { $0.operation === second && $0.kind == .started }
        #expect(ended!.time <= began!.time)
    }

    @Test func aCancelledOneDoesNotStart() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let recorder = Recorder()
        queue.isSuspended = true
        let operation = BlockOperation {}
        operation.addDependency(Operation())
        queue.addOperation(operation)
        // Existing operations report events from now on.
        engine.addObserver(recorder)
        defer { engine.removeObserver(recorder) }
        operation.cancel()
        queue.isSuspended = false
        operation.waitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(recorder.kinds(of: operation) == [.cancelled, .ready, .finished])
    }

    @Test func eachAttemptIsToldAsOneStart() {
        struct Failure: Error {}
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let recorder = Recorder()
        queue.addObserver(recorder)
        defer { queue.removeObserver(recorder) }
        let operation = BlockOperation { throw Failure() }
        operation.retryPolicy = RetryPolicy(attempts: 2)
        queue.addOperation(operation)
        while simulation.step() {}
        #expect(recorder.kinds(of: operation) == [.added, .ready, .started, .started, .finished])
    }

    @Test func anEnginesObserverSeesAllQueuesAndNoHelpers() {
        let engine = Engine(workerCount: 2)
        let recorder = Recorder()
        engine.addObserver(recorder)
        defer { engine.removeObserver(recorder) }
        let several = BlockOperation {}
        several.addExecutionBlock {}
        several.addExecutionBlock {}
        let onMain = BlockOperation {}
        OperationQueue(engine: engine).addOperations([several], waitUntilFinished: true)
        engine.mainQueue.addOperations([onMain], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(recorder.log.count == 8)
        #expect(recorder.kinds(of: several) == [.added, .ready, .started, .finished])
        let mainEvents = recorder.log.entries.filter { $0.operation === onMain }
        #expect(mainEvents.map(\.kind) == [.added, .ready, .started, .finished] && mainEvents.allSatisfy { $0.worker == nil })
    }

    @Test func aRemovedObserverIsToldNothingAndLetGo() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        weak var held: Recorder?
        do {
            let recorder = Recorder()
            held = recorder
            queue.addObserver(recorder)
            engine.addObserver(recorder)
            queue.removeObserver(recorder)
            engine.removeObserver(recorder)
            queue.addOperations([BlockOperation {}], waitUntilFinished: true)
            #expect(recorder.log.count == 0)
        }
        #expect(held == nil)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func anObserverMayUseTheQueue() {
        final class Adding: OperationObserver {
            let log = Log<Int>()
            let hasRun = Gate()
            func operationChanged(_ event: OperationEvent) {
                guard event.kind == .finished, event.operation.name == "first", let queue = event.queue else { return }
                queue.addOperations([BlockOperation { [log] in log.append(1) }], waitUntilFinished: true)
                queue.removeObserver(self)
                hasRun.open()
            }
        }
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let observer = Adding()
        queue.addObserver(observer)
        let first = BlockOperation {}
        first.name = "first"
        queue.addOperation(first)
        observer.hasRun.wait()
        #expect(observer.log.count == 1)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func anOperationStartedByHandHasNoEvents() {
        let engine = Engine(workerCount: 1)
        let recorder = Recorder()
        engine.addObserver(recorder)
        BlockOperation {}.start()
        #expect(recorder.log.count == 0)
    }
}
