import OpEngine
import TestSupport
import Testing

/// Code written for Foundation's classes does these things. Classes that only resemble them may not allow them.
@Suite struct DropInTests {
    private let engine = Engine(workerCount: 2)

    // MARK: Subclasses of queues

    // Safety: `@unchecked Sendable`, here and below, because the properties are constants, have locks, or are used by one thread only.
    private final class WithoutInitialiser: OperationQueue, @unchecked Sendable { var added = 1 }

    // Safety: as above.
    private final class WithInitialiser: OperationQueue, @unchecked Sendable {
        let limit: Int
        init(limit: Int) {
            self.limit = limit
            super.init()
            maxConcurrentOperationCount = limit
        }
    }

    // Safety: as above.
    private final class WithOverride: OperationQueue, @unchecked Sendable {
        override init() {
            super.init()
            name = "overriding"
        }
    }

    @Test func aSubclassOfAQueueHasTheInitialisersThatItsAuthorExpects() {
        let queues = [WithoutInitialiser(), WithInitialiser(limit: 3), WithOverride()]
        let log = Log<Int>()
        for queue in queues { queue.addOperations([BlockOperation { log.append(1) }], waitUntilFinished: true) }
        #expect(log.entries == [1, 1, 1])
        #expect(queues.map(\.maxConcurrentOperationCount) == [-1, 3, -1] && queues[2].name == "overriding")
        #expect(WithoutInitialiser(engine: engine).engine === engine)
    }

    @Test func aQueueHasANameWithoutBeingGivenOne() throws {
        let (queue, other) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        let byDefault = try #require(queue.name)
        #expect(byDefault.hasPrefix("NSOperationQueue 0x") && byDefault != other.name)
        queue.name = "mine"
        #expect(queue.name == "mine")
        queue.name = nil
        #expect(queue.name == byDefault)
        #expect(engine.mainQueue.name == "NSOperationQueue Main Queue")
    }

    private final class Executor: OperationExecutor {
        func execute(_ job: @escaping @Sendable () -> Void) { job() }
    }

    @Test func anUnderlyingQueueCanBeComparedByIdentity() {
        let (queue, executor) = (OperationQueue(engine: engine), Executor())
        queue.underlyingQueue = executor
        #expect(queue.underlyingQueue === executor)
    }

    // MARK: Names

    /// Foundation does not use these names, so its users may declare them.
    // Safety: as above.
    private final class OwnNames: Operation, @unchecked Sendable {
        static let current = "mine"
        private let queue = "a dispatch queue"
        var error: String?
        var outcome = 1
        let whyNotRunning = 2
        var dependencyPolicy = "strict"
        func willFinish() { fatalError("called by the engine") }
        func didFinish() { fatalError("called by the engine") }
        func finished() -> String { queue }
        func fail(with error: String) { self.error = error }
        func whenFinished(_ body: () -> Void) { body() }
        func tryStart() -> Bool { false }
        override func main() { fail(with: finished()) }
    }

    // Safety: as above.
    private final class OwnNamesOfAQueue: OperationQueue, @unchecked Sendable {
        private let engine = "none"
        var dependencyPolicy = 1
        var maxPendingOperationCount = "many"
        func tryAddOperation(_ operation: Operation) -> String { engine }
    }

    @Test func namesThatFoundationDoesNotUseAreFree() throws {
        let operation = OwnNames()
        OwnNamesOfAQueue(engine: engine).addOperations([operation], waitUntilFinished: true)
        #expect(operation.error == "a dispatch queue" && OwnNames.current == "mine")
        // The members of the engine are still there.
        #expect((operation as Operation).outcome == .succeeded && (operation as Operation).error == nil)
    }

    // Safety: as above.
    private final class Described: Operation, @unchecked Sendable {
        override var description: String { "a described operation" }
        override func isEqual(_ object: Any?) -> Bool { object is Described }
        override var hash: Int { 1 }
    }

    @Test func whatFoundationsObjectsHaveCanBeOverridden() {
        #expect("\(Described())" == "a described operation" && String(reflecting: Described()) == "a described operation")
        #expect(Set([Described(), Described()]).count == 1 && Described() as Operation != BlockOperation {})
        #expect("\(BlockOperation {})".hasPrefix("<BlockOperation: 0x"))
    }

    @Test func equalOperationsAreAllCancelled() {
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let (first, second) = (Described(), Described())
        second.addDependency(BlockOperation {})
        queue.addOperations([first, second], waitUntilFinished: false)
        queue.cancelAllOperations()
        #expect(first.isCancelled && second.isCancelled)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    // MARK: Subclasses of operations

    /// Its work goes on after `main`, and only the getter of `isFinished` says so.
    // Safety: as above.
    private class Later: Operation, @unchecked Sendable {
        let hasDone = Locked(false)
        let mayEnd = Gate()
        override var isFinished: Bool { hasDone.withLock { $0 } }
        override func main() {
            _ = TestThread {
                self.mayEnd.wait()
                self.willChangeValue(forKey: "isFinished")
                self.hasDone.withLock { $0 = true }
                self.didChangeValue(forKey: "isFinished")
            }
        }
    }

    // Safety: as above.
    private final class LaterWithSuper: Later, @unchecked Sendable {
        override var isFinished: Bool { super.isFinished && baseHasFinished }
        private var baseHasFinished: Bool { true }
    }

    /// Combines its own flag with the flag of the superclass.
    // Safety: as above.
    private final class Combined: Operation, @unchecked Sendable {
        let hasDone = Locked(false)
        override var isFinished: Bool { super.isFinished && hasDone.withLock { $0 } }
        func end() {
            willChangeValue(for: \.isFinished)
            hasDone.withLock { $0 = true }
            didChangeValue(for: \.isFinished)
        }
    }

    @Test(arguments: [Later(), LaterWithSuper()])
    private func oneThatSaysItHasNotFinishedGoesOnAfterMain(operation: Later) {
        let queue = OperationQueue(engine: engine)
        let (log, completed) = (Log<String>(), Gate())
        operation.completionBlock = {
            log.append("completed: \(operation.isFinished)")
            completed.open()
        }
        let dependent = BlockOperation { log.append("dependent: \(operation.isFinished)") }
        dependent.addDependency(operation)
        queue.addOperations([operation, dependent], waitUntilFinished: false)
        // The check follows when an operation of another queue has run.
        let other = OperationQueue(engine: Engine(workerCount: 1))
        other.addOperations([BlockOperation {}], waitUntilFinished: true)
        #expect(queue.operationCount == 2 && log.entries.isEmpty)
        operation.mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        completed.wait()
        #expect(Set(log.entries) == ["completed: true", "dependent: true"])
    }

    @Test func oneThatIsStartedByHandGoesOnAsWell() {
        let (operation, completed) = (Later(), Gate())
        operation.completionBlock = { completed.open() }
        operation.start()
        #expect(!operation.isFinished && operation.isExecuting)
        operation.mayEnd.open()
        operation.waitUntilFinished()
        completed.wait()
        #expect(operation.isFinished && !operation.isExecuting && operation.outcome == .succeeded)
    }

    @Test func anOverrideMayCombineItsFlagWithThatOfItsSuperclass() {
        let queue = OperationQueue(engine: engine)
        let operation = Combined()
        let main = BlockOperation {}
        main.addDependency(operation)
        queue.addOperations([operation, main], waitUntilFinished: false)
        operation.end()
        queue.waitUntilAllOperationsAreFinished()
        #expect(operation.isFinished && main.isFinished)
    }

    // Safety: as above.
    private final class Urgent: BlockOperation, @unchecked Sendable {
        private let urgency = Locked(QueuePriority.veryHigh)
        override var queuePriority: QueuePriority {
            get { urgency.withLock { $0 } }
            set { urgency.withLock { $0 = newValue } }
        }
        func change(to priority: QueuePriority) {
            willChangeValue(for: \.queuePriority)
            urgency.withLock { $0 = priority }
            didChangeValue(for: \.queuePriority)
        }
    }

    @Test func anOverriddenPriorityIsThatOfTheQueue() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<String>()
        let (urgent, later) = (Urgent { log.append("urgent") }, Urgent { log.append("later") })
        queue.addOperation { log.append("usual") }
        queue.addOperations([later, urgent], waitUntilFinished: false)
        later.change(to: .low)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["urgent", "usual", "later"])
    }

    // MARK: Ends that a subclass announces

    /// Announces its end only in `main`.
    // Safety: as above.
    private final class Announcing: Operation, @unchecked Sendable {
        private let hasEnded = Locked(false)
        override var isFinished: Bool { hasEnded.withLock { $0 } }
        override func main() {
            willChangeValue(forKey: "isFinished")
            hasEnded.withLock { $0 = true }
            didChangeValue(forKey: "isFinished")
        }
    }

    @Test func oneThatAnnouncesItsEndInMainCompletesOnce() {
        let queue = OperationQueue(engine: engine)
        let (operation, log) = (Announcing(), Log<String>())
        operation.completionBlock = { log.append("completed") }
        let dependent = BlockOperation {}
        dependent.addDependency(operation)
        queue.addOperations([operation, dependent], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["completed"])
    }

    @Test func oneThatWasCancelledBeforeItCouldAnnounceItsEndReleasesItsDependents() {
        let queue = OperationQueue(engine: engine)
        let (operation, log) = (Announcing(), Log<String>())
        operation.completionBlock = { log.append("completed") }
        let dependent = BlockOperation { log.append("dependent") }
        dependent.addDependency(operation)
        operation.cancel()
        queue.addOperations([operation, dependent], waitUntilFinished: true)
        #expect(queue.operationCount == 0)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(Set(log.entries) == ["completed", "dependent"] && log.count == 2)
    }

    // MARK: Cost

    /// If each removal searched all dependencies, the test would take minutes.
    @Test(arguments: ["last first", "first first", "every other"])
    func removingManyDependenciesIsLinear(order: String) {
        let count = TestLength.size(200_000)
        let gate = BlockOperation {}
        let dependencies = (0..<count).map { _ in BlockOperation {} }
        for dependency in dependencies { gate.addDependency(dependency) }
        let removed =
            switch order {
            case "last first": Array(dependencies.reversed())
            case "first first": dependencies
            default: stride(from: 0, to: count, by: 2).map { dependencies[$0] }
            }
        for dependency in removed { gate.removeDependency(dependency) }
        let (left, isReady) = (gate.dependencies.count, gate.isReady)
        #expect(left == count - removed.count && isReady == (removed.count == count))
        // The list is in order, and accepts new dependencies.
        let gone = Set(removed)
        let isInOrder = gate.dependencies.elementsEqual(dependencies.lazy.filter { !gone.contains($0) })
        #expect(isInOrder)
        gate.addDependency(removed[0])
        let last = gate.dependencies.last
        #expect(last === removed[0] && !gate.isReady)
    }
}
