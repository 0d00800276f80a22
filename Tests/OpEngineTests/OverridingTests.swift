import OpEngine
import TestSupport
import Testing

/// Members that Foundation lets a subclass override. The engine uses the overrides.
@Suite struct OverridingTests {
    private final class Watched: BlockOperation, @unchecked Sendable {
        // Safety: the log has a lock.
        let log = Log<String>()
        override var name: String? {
            get { super.name.map { "<\($0)>" } }
            set { super.name = newValue }
        }
        override var queuePriority: QueuePriority {
            get { super.queuePriority }
            set {
                log.append("queuePriority")
                super.queuePriority = newValue
            }
        }
        override var qualityOfService: QualityOfService {
            get { super.qualityOfService }
            set {
                log.append("qualityOfService")
                super.qualityOfService = newValue
            }
        }
        override var dependencies: [Operation] { super.dependencies.reversed() }
        override func addDependency(_ operation: Operation) {
            log.append("addDependency")
            super.addDependency(operation)
        }
        override func removeDependency(_ operation: Operation) {
            log.append("removeDependency")
            super.removeDependency(operation)
        }
        override var completionBlock: (@Sendable () -> Void)? {
            get { super.completionBlock }
            set {
                log.append("completionBlock")
                super.completionBlock = newValue
            }
        }
        override func waitUntilFinished() {
            log.append("waitUntilFinished")
            super.waitUntilFinished()
        }
    }

    private final class Counting: OperationQueue, @unchecked Sendable {
        // Safety: the log has a lock.
        let log = Log<String>()
        override func addOperation(_ operation: Operation) {
            log.append("addOperation")
            super.addOperation(operation)
        }
        override func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
            log.append("addOperations")
            super.addOperations(operations, waitUntilFinished: wait)
        }
        override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
            log.append("addBarrierBlock")
            super.addBarrierBlock(barrier)
        }
    }

    @Test func anOperationsOverridesAreCalledAndTheOriginalsWork() {
        let engine = Engine(workerCount: 1)
        defer { _ = engine.shutdown(deadline: .seconds(10)) }
        let (first, second) = (Operation(), Operation())
        let operation = Watched()
        operation.name = "a"
        operation.queuePriority = .high
        operation.qualityOfService = .utility
        operation.addDependency(first)
        operation.addDependency(second)
        operation.removeDependency(second)
        operation.addDependency(second)
        operation.completionBlock = {}
        #expect(operation.name == "<a>")
        #expect(operation.dependencies == [second, first])
        OperationQueue(engine: engine).addOperations([first, second, operation], waitUntilFinished: false)
        operation.waitUntilFinished()
        #expect(operation.isFinished)
        #expect(
            operation.log.entries == [
                "queuePriority", "qualityOfService", "addDependency", "addDependency", "removeDependency", "addDependency",
                "completionBlock", "waitUntilFinished",
            ])
    }

    @Test func aQueuesOverridesAreCalledAndTheOriginalsWork() {
        let engine = Engine(workerCount: 1)
        defer { _ = engine.shutdown(deadline: .seconds(10)) }
        let queue = Counting(engine: engine)
        let ran = Log<Int>()
        queue.addOperation(Operation())
        queue.addOperation { ran.append(1) }
        queue.addOperation(queuePriority: .low) { ran.append(Operation.current?.queuePriority.rawValue ?? 0) }
        queue.addBarrierBlock { ran.append(2) }
        queue.addOperations([BlockOperation { ran.append(3) }], waitUntilFinished: true)
        #expect(ran.entries == [1, -4, 2, 3])
        #expect(queue.log.entries == ["addOperation", "addOperation", "addOperation", "addBarrierBlock", "addOperations"])
    }
}
