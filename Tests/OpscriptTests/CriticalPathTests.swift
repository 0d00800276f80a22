import Testing

@testable import opscript

@Suite struct CriticalPathTests {
    /// An operation that was ready at `ready` and waited for its queue's maximum for `maximum`.
    private func operation(
        thread: Int, queue: Int = 0, added: UInt64 = 0, ready: UInt64 = 0, _ times: Range<UInt64>, maximum: UInt64 = 0,
        suspended: UInt64 = 0, resumed: UInt64 = 0,
        creator: Int32? = nil
    ) -> RunOperation {
        RunOperation(
            queue: queue, creator: creator, thread: thread, added: added, ready: ready, started: times.lowerBound,
            finished: times.upperBound,
            suspendedTime: suspended, maximumTime: maximum, resumed: resumed, phase: .finished)
    }

    private func path(_ operations: [RunOperation], _ edges: [(operation: Int32, dependency: Int32)] = []) -> [String] {
        CriticalPath.steps(of: operations, edges: edges).map { "\($0.operation) \($0.reason)" }
    }

    @Test("The path goes through dependencies, workers, maxima and creators")
    func reasons() {
        let operations = [
            operation(thread: 1, 1..<10),
            operation(thread: 2, 1..<20),
            operation(thread: 2, ready: 20, 21..<30),
            operation(thread: 2, queue: 1, added: 5, ready: 5, 31..<50),
            operation(thread: 1, queue: 1, added: 5, ready: 5, 51..<60, maximum: 19),
            operation(thread: 2, added: 55, ready: 55, 56..<70, creator: 4),
        ]
        #expect(path(operations, [(2, 0), (2, 1)]) == ["1 first", "2 dependency", "3 worker", "4 maximum", "5 creator"])
    }

    @Test("A dependency that finished before another operation left the worker does not count")
    func laterWorker() {
        let operations = [operation(thread: 1, 1..<10), operation(thread: 2, 1..<30), operation(thread: 2, ready: 10, 31..<40)]
        #expect(path(operations, [(2, 0)]) == ["1 first", "2 worker"])
    }

    @Test("An operation that was added after everything had ended begins the path")
    func addedLate() {
        #expect(path([operation(thread: 1, 1..<10), operation(thread: 1, added: 20, ready: 20, 21..<30)]) == ["1 added"])
    }

    @Test("After a suspension, the path goes on with the last dependency")
    func suspension() {
        let operations = [
            operation(thread: 1, 1..<10), operation(thread: 1, 11..<15),
            operation(thread: 1, ready: 10, 40..<50, suspended: 29, resumed: 39),
        ]
        #expect(path(operations, [(2, 0)]) == ["0 first", "2 suspension"])
    }

    @Test("A suspension that ended before another operation left the worker does not count")
    func earlySuspension() {
        let operations = [
            operation(thread: 1, 1..<10), operation(thread: 1, 11..<15),
            operation(thread: 1, ready: 10, 16..<50, suspended: 2, resumed: 12),
        ]
        #expect(path(operations, [(2, 0)]) == ["0 first", "1 worker", "2 worker"])
    }

    @Test("Without an operation that ran there is no path")
    func nothing() {
        #expect(path([]).isEmpty)
        #expect(path([RunOperation(queue: 0, creator: nil, added: 0, ready: 0, finished: 5, phase: .finished)]).isEmpty)
    }
}
