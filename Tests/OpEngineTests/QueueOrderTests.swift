import OpPlatform
import TestSupport
import Testing

@testable import OpEngine

/// The order of operations that are removed from the middle of a list, and the order when the numbers run out.
@Suite struct QueueOrderTests {
    private let queue = OperationQueue(engine: Engine(workerCount: 2))

    init() {
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
    }

    /// A failure prints the seed.
    @Test(arguments: (0..<100).map { _ in UInt64.random(in: 0..<1_000_000) })
    func whoIsReadyRunsByPriorityAndThenAsItBecameReady(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let log = Log<Int>()
        let gate = Operation()
        let priorities = Operation.QueuePriority.allCases.shuffled(using: &random).prefix(Int.random(in: 1...5, using: &random))
        let operations = (0..<30).map { index in BlockOperation { log.append(index) } }
        for operation in operations { operation.queuePriority = priorities.randomElement(using: &random)! }
        queue.addOperations(operations, waitUntilFinished: false)
        var ready = Array(operations.indices)
        for _ in 0..<100 {
            let index = operations.indices.randomElement(using: &random)!
            let operation = operations[index]
            let (wasReady, priority) = (operation.isReady, operation.queuePriority)
            switch Int.random(in: 0..<3, using: &random) {
            case 0: operation.queuePriority = priorities.randomElement(using: &random)!
            case 1: operation.addDependency(gate)
            default: operation.removeDependency(gate)
            }
            // An operation that stays ready and keeps its priority keeps its place.
            if wasReady && operation.isReady && operation.queuePriority == priority { continue }
            ready.removeAll { $0 == index }
            if operation.isReady { ready.append(index) }
        }
        #expect(queue.operations == operations)
        let expected = Operation.QueuePriority.allCases.sorted { $0.rawValue > $1.rawValue }
            .flatMap { priority in ready.filter { operations[$0].queuePriority == priority } }
        for operation in operations where !operation.isReady { operation.cancel() }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == expected, "seed \(seed)")
    }

    /// Each queue numbers its operations with 32 bits and restarts at 0 whenever it is empty.
    @Test(arguments: [0, 1, 2, 3])
    func whenTheNumbersAreUsedUpTheOrderIsKept(distance: Int) throws {
        let log = Log<Int>()
        let last = Operation()
        let numbers = Int(UInt32.max)
        func operation(_ index: Int) -> BlockOperation { BlockOperation { log.append(index) } }
        queue.addOperation(operation(0))
        try queue.tryAddBarrier(operation(1))
        queue.core.state.withLock { $0.added = numbers - 4 - distance }
        for index in 2..<10 {
            let operation = operation(index)
            // Some operations wait, so two lists must be renumbered.
            if index % 3 == 0 { operation.addDependency(last) }
            if index % 4 == 0 { try queue.tryAddBarrier(operation) } else { queue.addOperation(operation) }
        }
        #expect(queue.core.state.withLock { $0.added } > numbers)
        let all = queue.operations
        #expect(all.count == 10 && all.map(\.number) == all.map(\.number).sorted())
        for operation in all where !operation.isReady { operation.removeDependency(last) }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        // Between the barriers 1, 4 and 8, the operations that waited start last.
        #expect(log.entries == [0, 1, 2, 3, 4, 5, 7, 6, 8, 9])
    }

    /// Adding and taking operations change the same cache line of 64 bytes. Fields that only one of the two changes are in other lines.
    @Test func whatEachOperationChangesIsInOneLine() throws {
        typealias State = OperationQueue.State
        func line<Field>(of field: PartialKeyPath<State>, _: Field.Type, from first: Int = 8) throws -> ClosedRange<Int> {
            let offset = first + (try #require(MemoryLayout<State>.offset(of: field)))
            return offset / 64...(offset + MemoryLayout<Field>.size - 1) / 64
        }
        let ready = try #require(MemoryLayout<OperationQueue.Segment>.offset(of: \.end))
        #expect(8 + (try #require(MemoryLayout<State>.offset(of: \.segments))) + ready <= 64)
        let (maximum, added, running) = (
            try line(of: \.maximum, Int.self), try line(of: \.added, Int.self), try line(of: \.running, OperationList.self)
        )
        #expect(maximum.lowerBound > 0 && added.lowerBound > maximum.upperBound && running.lowerBound > added.upperBound)
    }
}
