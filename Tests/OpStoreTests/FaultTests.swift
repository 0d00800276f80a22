import StoreGraph
import TestSupport
import Testing

/// Disks that are full or fail, from each change of a file on.
@Suite struct FaultTests {
    @Test(arguments: ["full", "error"]) func aDiskThatFailsIsSaidOnceAndFailsNothing(fault: String) throws {
        var random = SeededGenerator(seed: 1)
        let whole = try Folder()
        StoreGraph(seed: 5, nodeCount: 8).writeSources(in: whole.path, using: &random)
        let expected = try HostRun(whole, seed: 5, nodes: 8)
        #expect(expected.status == 0)
        for change in stride(from: 0, to: 80, by: TestLength.isShort ? 7 : 1) {
            random = SeededGenerator(seed: 1)
            let folder = try Folder()
            StoreGraph(seed: 5, nodeCount: 8).writeSources(in: folder.path, using: &random)
            let run = try HostRun(folder, seed: 5, nodes: 8, [fault, "\(change)"])
            #expect(run.status == 0 || run.status == 2, "change \(change)")
            let warnings = run.output.filter { $0.hasPrefix("the store ") }
            #expect(warnings.count <= 1, "change \(change): \(warnings)")
            if run.status == 2 { #expect(warnings.first?.contains("cannot be ") == true, "change \(change)") }
            #expect(run.output.filter { !$0.hasPrefix("the store ") } == expected.output, "change \(change)")
            // The disk works again. The records are found, and nothing is damaged.
            let next = try HostRun(folder, seed: 5, nodes: 8)
            #expect(next.status == 0)
            #expect(next.output == expected.output, "change \(change)")
            let done = Set(run.events.filter { $0.hasPrefix("done ") }.map { $0.dropFirst(5) })
            let again = next.events.filter { $0.hasPrefix("runs ") }.map { $0.split(separator: " ")[1] }
            #expect(done.isDisjoint(with: again), "change \(change)")
        }
    }
}
