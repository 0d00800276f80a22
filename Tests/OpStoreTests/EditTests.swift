import OpStore
import StoreGraph
import Synchronization
import TestSupport
import Testing

/// Random edits, against a store that is empty. OPSCRIPT_STORE_SEED repeats a run.
@Suite struct EditTests {
    @Test func afterAnyEditsTheResultIsThatOfDoingEverythingAgain() throws {
        let seed = TestLength.number("OPSCRIPT_STORE_SEED").map(UInt64.init) ?? UInt64.random(in: 0...999_999)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<TestLength.size(TestLength.isLong ? 100 : 10) {
            let graph = StoreGraph(seed: UInt64.random(in: 0...999, using: &random), nodeCount: Int.random(in: 3...30, using: &random))
            let folder = try Folder()
            graph.writeSources(in: folder.path, using: &random)
            // One store goes on, as in a script that watches files; another one is new each time.
            let kept = folder.store()
            for round in 0..<15 {
                let edits =
                    round == 0 ? [] : (0..<Int.random(in: 1...4, using: &random)).map { _ in graph.edit(in: folder.path, using: &random) }
                let place: Comment = "OPSCRIPT_STORE_SEED=\(seed), round \(round): \(edits)"
                let events = Log<StoreGraph.Event>()
                let made = try graph.run(in: folder.path, store: round % 2 == 0 ? kept : folder.store(), threads: 2) { events.append($0) }
                for case .isNotRecorded(_, let reason) in events.entries { Issue.record("\(place): \(reason)") }
                let reference = folder.store {
                    $0.directory = folder.path + "/empty-\(round)"; $0.base = folder.path
                }
                #expect(try graph.run(in: folder.path, store: reference, threads: 2) { _ in } == made, place)
                #expect(reference.counts.hits == 0, place)
                // The reference has written all outputs again, as they were.
                let again = Log<StoreGraph.Event>()
                #expect(try graph.run(in: folder.path, store: kept, threads: 2) { again.append($0) } == made, place)
                for case .runs(let node, let reason) in again.entries { Issue.record("\(place): \(node) runs again: \(reason)") }
            }
            #expect(folder.warnings.entries == [])
        }
    }
}
