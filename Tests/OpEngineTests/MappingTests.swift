import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// `OperationQueue.map`.
@Suite(.endsWithin(seconds: 300)) struct MappingTests {
    private struct Broken: Error {}
    private let queue = OperationQueue(engine: Engine(workerCount: 2))

    /// Waits for what is left in the queue, and blocks no thread.
    private func settle() async throws {
        let last = BlockOperation {}
        for operation in queue.operations { last.addDependency(operation) }
        queue.addOperation(last)
        try await last.finished()
    }

    @Test func resultsComeInTheOrderOfTheElements() async throws {
        var expected = 0
        for try await square in queue.map(0..<10_000, { $0 * $0 }) {
            #expect(square == expected * expected)
            expected += 1
        }
        #expect(expected == 10_000)
        for try await _ in queue.map([Int](), { $0 }) { Issue.record("there is no element") }
    }

    @Test func unorderedResultsComeAsTheyAreThere() async throws {
        let gate = Gate()
        var results: [Int] = []
        let mapped = queue.map(1...3, ordered: false) { element in
            if element == 1 { gate.wait() }
            return element
        }
        for try await element in mapped {
            results.append(element)
            if results.count == 2 { gate.open() }
        }
        #expect(results.last == 1 && results.sorted() == [1, 2, 3])
    }

    @Test func anErrorIsThrownInPlaceOfTheResult() async throws {
        var results: [Int] = []
        await #expect(throws: Broken.self) {
            for try await element in queue.map(
                1...,
                { element in
                    if element == 100 { throw Broken() }
                    return element
                })
            { results.append(element) }
        }
        #expect(results == Array(1..<100))
    }

    @Test func onlySomeElementsAreTakenAhead() async throws {
        let gate = Gate()
        let taken = Atomic(0)
        let elements = sequence(state: 0) { number -> Int? in
            number += 1
            taken.store(number, ordering: .relaxed)
            return number
        }
        let mapped = queue.map(elements, inFlight: 3) { element in
            if element == 2 { gate.wait() }
            return element
        }
        for try await element in mapped {
            // The first batch has one element. The next three are in flight, and each has at most four.
            #expect(taken.load(ordering: .relaxed) <= 13)
            gate.open()
            if element == 2 { break }
        }
        try await settle()
    }

    @Test func aQueueWithAHugeMaximumTakesFewElementsAhead() async throws {
        queue.maxConcurrentOperationCount = .max - 1
        for try await element in queue.map(1..., { $0 }) where element == 100 { break }
        try await settle()
    }

    @Test func leavingTheLoopCancelsTheRest() async throws {
        let isCancelled = Gate()
        let mapped = queue.map(1..., inFlight: 2) { element in
            guard element > 1, let operation = Operation.current else { return element }
            operation.observeCancellation(isCancelled)
            isCancelled.wait()
            return element
        }
        for try await _ in mapped { break }
        try await settle()
    }

    @Test func cancellingTheTaskEndsTheIteration() async throws {
        let (started, gate) = (AsyncStream.makeStream(of: Void.self), Gate())
        let queue = queue
        let task = Task {
            for try await _ in queue.map(
                1...,
                {
                    started.continuation.yield()
                    gate.wait()
                    gate.open()
                    return $0
                })
            {}
        }
        for await _ in started.stream { break }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        gate.open()
        try await settle()
    }

    @Test func cancellingTheOperationsEndsTheIteration() async throws {
        queue.isSuspended = true
        let queue = queue
        let elements = sequence(state: 0) { number -> Int? in
            number += 1
            if number == 1 { return number }
            queue.cancelAllOperations()
            queue.isSuspended = false
            return nil
        }
        await #expect(throws: CancellationError.self) { for try await _ in queue.map(elements, { $0 }) {} }
        let executing = queue.map(1...3, inFlight: 1) { _ in queue.cancelAllOperations() }
        await #expect(throws: CancellationError.self) { for try await _ in executing {} }
    }

    @Test func fastElementsShareOperations() async throws {
        let counter = OperationCounter()
        queue.addObserver(counter)
        var count = 0
        for try await _ in queue.map(0..<20_000, { $0 }) { count += 1 }
        #expect(count == 20_000)
        #expect(counter.count.load(ordering: .relaxed) < 20_000)
    }
}

extension Operation {
    /// Opens the gate when the operation is cancelled, or at once if it was cancelled before.
    fileprivate func observeCancellation(_ gate: Gate) {
        let observation = observe(\.isCancelled, options: [.initial, .new]) { _, change in if change.newValue == true { gate.open() } }
        whenFinished { observation.invalidate() }
    }
}

private final class OperationCounter: OperationObserver {
    let count = Atomic(0)

    func operationChanged(_ event: OperationEvent) {
        if case .finished = event.kind { count.add(1, ordering: .relaxed) }
    }
}
