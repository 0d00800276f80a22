import OpEngine
import TestSupport
import Testing

@Suite struct InvocationOperationTests {
    private struct Overflow: Error {}

    private final class Counter: Sendable {
        let log: Log<String>
        init(log: Log<String>) { self.log = log }
        deinit { log.append("gone") }

        func add(_ number: Int) -> Int { number + 1 }
        func count() -> Int { 7 }
        func reset() { log.append("reset") }
        func overflow(_ number: Int) throws -> Int { throw Overflow() }
    }

    private let log = Log<String>()

    @Test func itCallsTheMethodWithItsArgument() throws {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.add, argument: 3)
        #expect(try operation.result == nil)
        OperationQueue(engine: Engine(workerCount: 1)).addOperations([operation], waitUntilFinished: true)
        #expect(try operation.result == 4)
        let simple = InvocationOperation(target: Counter(log: log), method: Counter.count)
        simple.start()
        #expect(try simple.result == 7)
    }

    @Test func itKeepsItsTargetUntilTheMethodHasRun() {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.reset)
        #expect(log.entries.isEmpty)
        operation.start()
        #expect(log.entries == ["reset", "gone"])
    }

    @Test func oneThatIsCancelledLetsItsTargetGoWithoutCallingIt() {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.reset)
        operation.cancel()
        operation.start()
        #expect(log.entries == ["gone"])
    }

    @Test func aCancelledOneHasNoResult() {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.count)
        operation.name = "count"
        operation.cancel()
        operation.start()
        let error = #expect(throws: OperationError.self) { try operation.result }
        #expect("\(error!)" == "count has no result: it was cancelled; look at isCancelled before asking")
    }

    @Test func oneCancelledWhileItRanHasNoResultEither() {
        final class Target: Sendable {
            func cancelMe() -> Int {
                Operation.current?.cancel()
                return 1
            }
        }
        let operation = InvocationOperation(target: Target(), method: Target.cancelMe)
        operation.start()
        #expect(throws: OperationError.self) { try operation.result }
        #expect(operation.outcome == .cancelled)
    }

    @Test func aMethodThatReturnsNothingHasNoResult() {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.reset)
        operation.start()
        let error = #expect(throws: OperationError.self) { try operation.result }
        #expect("\(error!)".hasSuffix("has no result: its method returns nothing"))
    }

    @Test func whatTheMethodThrowsIsTheErrorOfTheOperationAndOfItsResult() {
        let operation = InvocationOperation(target: Counter(log: log), method: Counter.overflow, argument: 1)
        operation.start()
        #expect(operation.outcome == .failed && operation.error is Overflow)
        #expect(throws: Overflow.self) { try operation.result }
    }
}
