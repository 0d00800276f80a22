import TestSupport
import Testing

@testable @_spi(Subclassing) import OpEngine

/// The engine notices which members a class overrides.
@Suite struct OverriddenMethodsTests {
    // Safety: `@unchecked Sendable`, here and below, because nothing but constants is added to the superclass.
    private final class Empty: Operation, @unchecked Sendable {}
    // Safety: as above.
    private class OnlyMain: Operation, @unchecked Sendable {
        private let input: Int
        init(input: Int) { self.input = input }
        override func main() {}
        override func cancel() { super.cancel() }
        override var name: String? {
            get { "mine" }
            set {}
        }
        override var description: String { "\(input)" }
    }
    // Safety: as above.
    private final class Generic<Value>: Operation, @unchecked Sendable { override func main() {} }
    // Safety: as above.
    private final class Starting: Operation, @unchecked Sendable { override func start() {} }
    // Safety: as above.
    private class Readiness: Operation, @unchecked Sendable { override var isReady: Bool { super.isReady } }
    // Safety: as above.
    private final class InheritedReadiness: Readiness, @unchecked Sendable {}
    // Safety: as above.
    private final class Finishing: Operation, @unchecked Sendable { override var isFinished: Bool { super.isFinished } }
    // Safety: as above.
    private final class Executing: OnlyMain, @unchecked Sendable { override var isExecuting: Bool { super.isExecuting } }
    // Safety: as above.
    private final class Urgent: Operation, @unchecked Sendable {
        override var queuePriority: QueuePriority {
            get { .high }
            set {}
        }
    }
    // Safety: as above.
    private final class Quality: Operation, @unchecked Sendable {
        override var qualityOfService: QualityOfService {
            get { .utility }
            set {}
        }
    }
    // Safety: as above.
    private final class Told: Operation, @unchecked Sendable { override func didFinish() {} }

    @Test func oneThatOverridesOnlyWhatDoesNotMatterIsPlain() {
        for operation in [Operation(), Empty(), OnlyMain(input: 1), Generic<Int>(), Generic<String>(), OnlyMain(input: 2)] {
            #expect(OverriddenMethods.isPlain(operation), "\(type(of: operation))")
        }
    }

    @Test func oneThatOverridesAnythingElseIsNot() {
        let others = [
            Starting(), Readiness(), InheritedReadiness(), Finishing(), Executing(input: 1), Urgent(), Quality(), Told(), AsyncOperation(),
        ]
        for operation in others + others { #expect(!OverriddenMethods.isPlain(operation), "\(type(of: operation))") }
    }

    @Test func aPlainOneDoesEverythingThatOthersDo() throws {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        // Safety: the log has a lock.
        final class Logging: Operation, @unchecked Sendable {
            let log: Log<String>
            init(_ log: Log<String>) { self.log = log }
            override func main() {
                log.append("main \(isExecuting) \(Operation.current === self)")
                if isCancelled { log.append("cancelled") }
            }
        }
        let (first, second, third) = (Logging(log), Logging(log), Logging(log))
        second.addDependency(first)
        third.addDependency(second)
        let changes = Log<Bool>()
        let (told, completed) = (Gate(), Gate())
        let token = second.observe(\.isFinished, options: .new) {
            changes.append($1.newValue ?? false)
            told.open()
        }
        third.completionBlock = { completed.open() }
        first.cancel()
        queue.addOperations([third, second, first], waitUntilFinished: true)
        completed.wait()
        // `third` is released first: all of this may happen before the observer of `second` is called.
        told.wait()
        token.invalidate()
        #expect(log.entries == ["main true true", "main true true"] && changes.entries == [true])
        #expect([first, second, third].map(\.outcome) == [.cancelled, .succeeded, .succeeded])
        #expect(throws: OperationError.self) { try queue.tryAddOperation(first) }
        let started = Logging(log)
        started.start()
        #expect(throws: OperationError.self) { try queue.tryAddOperations([Logging(log), started], waitUntilFinished: false) }
        #expect(queue.operationCount == 0)
    }
}
