import OpEngine
import TestSupport
import Testing

@Suite struct AsyncEventTests {
    private let engine = Engine(workerCount: 1)

    @Test func theEventsOfAQueueAreASequence() async {
        let queue = OperationQueue(engine: engine)
        var events = queue.events().makeAsyncIterator()
        let operation = BlockOperation {}
        queue.addOperation(operation)
        var kinds: [OperationEvent.Kind] = []
        while kinds.last != .finished, let event = await events.next() {
            #expect(event.operation === operation)
            kinds.append(event.kind)
        }
        #expect(kinds == [.added, .ready, .started, .finished])
    }

    @Test func theEventsOfAnEngineCoverItsQueues() async {
        let stream = engine.events()
        let (first, second) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        first.addOperation {}
        second.addOperation {}
        var finished = 0
        for await event in stream where event.kind == .finished {
            finished += 1
            if finished == 2 { break }
        }
        #expect(finished == 2)
    }

    @Test func theSequenceEndsWithTheQueue() async {
        var queue: OperationQueue? = OperationQueue(engine: engine)
        let stream = queue!.events()
        queue = nil
        for await _ in stream { Issue.record("nothing has happened") }
    }

    @Test func theValuesOfAPropertyBeginWithTheOneNowAndEndWithTheOperation() async {
        let queue = OperationQueue(engine: engine)
        let operation = BlockOperation {}
        let executing = operation.values(of: \.isExecuting), finished = operation.values(of: \.isFinished)
        queue.addOperation(operation)
        var values: [Bool] = []
        for await value in executing { values.append(value) }
        #expect(values == [false, true, false])
        values = []
        for await value in finished { values.append(value) }
        #expect(values == [false, true])
        values = []
        for await value in operation.values(of: \.isFinished) { values.append(value) }
        #expect(values == [true])
    }

    @Test func aCancelledTaskStopsListening() async {
        let operation = BlockOperation {}
        let task = Task { [stream = operation.values(of: \.isCancelled)] in
            var count = 0
            for await _ in stream { count += 1 }
            return count
        }
        task.cancel()
        #expect(await task.value <= 1)
        operation.start()
    }
}
