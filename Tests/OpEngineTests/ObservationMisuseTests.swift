import Glibc
import OpEngine
import TestSupport
import Testing

/// Observing a property that is never told traps, with the property in the message.
@Suite struct ObservationMisuseTests {
    // Safety: nothing is added, here and below.
    private final class Subclass: Operation, @unchecked Sendable { var names = ["a"] }
    // Safety: as above.
    private final class QueueSubclass: OperationQueue, @unchecked Sendable {}

    private func message(of result: ExitTest.Result?) -> String {
        String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    }

    @Test func aPropertyOfAnOperationThatIsNeverToldTrapsWithItsName() async {
        let plain = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Operation().observe(\.qualityOfService) { _, _ in }
        }
        #expect(message(of: plain).contains("'qualityOfService' of an operation cannot be observed: isCancelled, isAsynchronous, "))
        let explicit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Subclass().observe(\Subclass.outcome) { _, _ in }
        }
        #expect(message(of: explicit).contains("'outcome' of an operation cannot be observed"))
        let byString = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Operation().observe(keyPath: "threadPriority") { _ in }
        }
        #expect(message(of: byString).contains("'threadPriority' of an operation cannot be observed"))
    }

    @Test func aPathThatLeadsFurtherTraps() async {
        let inherited = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Operation().observe(\.dependencies.count) { _, _ in }
        }
        #expect(message(of: inherited).contains("(Int)>' of an operation cannot be observed"))
        let ownCount = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Subclass().observe(\.names.count) { _, _ in }
        }
        #expect(message(of: ownCount).contains("(Int)>' of an operation cannot be observed"))
    }

    @Test func aPropertyOfAQueueThatIsNeverToldTrapsWithItsName() async {
        let whole = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = OperationQueue().observe(\.progress) { _, _ in }
        }
        #expect(message(of: whole).contains("'progress' of a queue cannot be observed: operations, "))
        let explicit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = QueueSubclass().observe(\QueueSubclass.maxPendingOperationCount) { _, _ in }
        }
        #expect(message(of: explicit).contains("'maxPendingOperationCount' of a queue cannot be observed"))
        let byString = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = OperationQueue().observe(keyPath: "progress.fraction") { _ in }
        }
        #expect(message(of: byString).contains("'progress.fraction' of a queue cannot be observed"))
    }

    @Test func aSubclassesOwnPropertyMayBeAnnounced() {
        let (operation, log) = (Subclass(), Log<String>())
        let token = operation.observe(\.names, options: .new) { log.append("\($1.newValue!)") }
        operation.willChangeValue(for: \.names)
        operation.names = ["b"]
        operation.didChangeValue(for: \.names)
        #expect(log.entries == [#"["b"]"#])
        token.invalidate()
    }
}
