import Dispatch
import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct ConditionTests {
    static let all: [@Sendable (String, Log<String>) -> OperationWithConditions] = [
        { OperationWithConditions($0, log: $1) }, { OperationWithDeclaredKeys($0, log: $1) },
    ]

    private func wait(for operations: [Operation]) throws {
        for operation in operations { #expect(try operation.tryWaitUntilFinished(until: .now + .seconds(20))) }
    }

    @Test("Conditions are evaluated when the dependencies have finished, and the operation runs when they hold", arguments: all)
    func conditions(make: @Sendable (String, Log<String>) -> OperationWithConditions) throws {
        let (queue, log) = (ConditionQueue(), Log<String>())
        let (first, second) = (make("first", log), make("second", log))
        second.addDependency(first)
        first.addCondition { answer in
            log.append("condition of first")
            answer(true)
        }
        second.addCondition { answer in
            log.append("condition of second")
            DispatchQueue.global().async { answer(true) }
        }
        queue.addOperation(second)
        queue.addOperation(first)
        try wait(for: [first, second])
        #expect(log.entries == ["condition of first", "first", "condition of second", "second"])
    }

    @Test("An operation whose condition does not hold finishes without running", arguments: all)
    func failingCondition(make: @Sendable (String, Log<String>) -> OperationWithConditions) throws {
        let (queue, log) = (ConditionQueue(), Log<String>())
        let (operation, dependent) = (make("operation", log), make("dependent", log))
        dependent.addDependency(operation)
        operation.addCondition { answer in answer(false) }
        for operation in [operation, dependent] { queue.addOperation(operation) }
        try wait(for: [operation, dependent])
        #expect(operation.isCancelled && log.entries == ["dependent"])
    }

    @Test("Hundreds of operations with conditions end, and each end is told once", arguments: all)
    func many(make: @Sendable (String, Log<String>) -> OperationWithConditions) throws {
        let (queue, log) = (ConditionQueue(), Log<String>())
        queue.maxConcurrentOperationCount = 3
        let (told, ends) = (Log<Int>(), Gate())
        let operations = (0..<200).map { make("\($0)", log) }
        let tokens = operations.enumerated().map { index, operation in
            operation.observe(\.isFinished, options: .new) { _, change in
                guard change.newValue == true else { return }
                told.append(index)
                ends.open()
            }
        }
        for (index, operation) in operations.enumerated() {
            if index > 2 { operation.addDependency(operations[index - 3]) }
            operation.addCondition { answer in index % 2 == 0 ? answer(true) : DispatchQueue.global().async { answer(true) } }
        }
        for operation in operations.reversed() { queue.addOperation(operation) }
        try wait(for: operations)
        queue.waitUntilAllOperationsAreFinished()
        #expect(Set(log.entries).count == 200 && log.count == 200)
        ends.wait(200)
        #expect(told.count == 200 && Set(told.entries).count == 200)
        for token in tokens { token.invalidate() }
    }

    enum Readiness: CaseIterable { case dependencyFinishes, dependencyIsRemoved, isCancelled }

    @Test("An operation in no queue is asked whether it is ready as soon as it is, and may start itself", arguments: Readiness.allCases)
    func readyOutsideOfQueues(how: Readiness) throws {
        let queue = OperationQueue()
        let (dependency, condition, operation) = (Operation(), SelfStartingOperation(), Operation())
        condition.addDependency(dependency)
        operation.addDependency(condition)
        queue.addOperation(operation)
        condition.allowStart()
        switch how {
        case .dependencyFinishes: queue.addOperation(dependency)
        case .dependencyIsRemoved: condition.removeDependency(dependency)
        case .isCancelled: condition.cancel()
        }
        try wait(for: [operation])
        #expect(condition.isCancelled == (how == .isCancelled))
    }
}
