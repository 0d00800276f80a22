import Foundation
import OpEngine
import TestSupport
import Testing

@Suite struct HooksTests {
    private struct Failure: Error {}

    @Test("The observers of the page log, measure and trace the operations of an engine")
    func observes() {
        let engine = Engine(workerCount: 2)
        let logger = Hooks.Logger(label: "operations")
        for observer in [Hooks.OperationLogger(logger), Hooks.OperationMetrics(), Hooks.OperationTracer()] as [any OperationObserver] {
            engine.addObserver(observer)
        }
        let queue = OpEngine.OperationQueue(engine: engine)
        queue.name = "q"
        typealias BlockOperation = OpEngine.BlockOperation
        let (good, bad, cancelled) = (BlockOperation {}, BlockOperation { throw Failure() }, BlockOperation {})
        (good.name, bad.name, cancelled.name) = ("good", "bad", "cancelled")
        bad.addDependency(good)
        cancelled.addDependency(bad)
        cancelled.dependencyPolicy = .succeeded
        queue.addOperations([good, bad, cancelled], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        #expect(
            logger.lines.entries.sorted() == [
                "operations debug: operation succeeded operation=good queue=q",
                "operations error: operation failed error=Failure() operation=bad queue=q",
                "operations notice: operation cancelled operation=cancelled queue=q",
            ])
        #expect(
            Hooks.records.withLock { $0.mapValues(\.count) } == [
                "operations_finished": 3, "operations_failed": 1, "operations_waiting": 2, "operations_executing": 2,
            ])
        #expect(Hooks.RecordedSpan.lines.entries.sorted() == [#"bad ["error=Failure()", "queue=q"]"#, #"good ["queue=q"]"#])
    }

    /// The lines without the spaces before them.
    private func unindented(_ text: String) -> String {
        text.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: "\n")
    }

    @Test("The page shows the code that this test compiles")
    func pageIsCompiled() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let page = tests.appendingPathComponent("../../Sources/OpEngine/OpEngine.docc/LoggingMetricsAndTracing.md")
        let code = try String(contentsOf: tests.appendingPathComponent("Hooks.swift"), encoding: .utf8)
        let blocks = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        // The first block adds the observers.
        #expect(blocks.count == 4)
        for block in blocks.dropFirst() {
            #expect(unindented(code).contains(unindented(block)), "Hooks.swift does not have this code:\n\(block)")
        }
    }
}
