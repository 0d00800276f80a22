import Glibc
import OpStore
import StoreGraph
import TestSupport
import Testing

/// The store that a process leaves when it is killed at any point, also in the middle of SQLite's writes.
///
/// OPSCRIPT_STORE_KILLS is the number of kills, OPSCRIPT_STORE_SEED repeats a run.
@Suite struct KillTests {
    @Test("After kills at random points, the end is that of one undisturbed run, and nothing is done twice")
    func kills() throws {
        let kills = TestLength.number("OPSCRIPT_STORE_KILLS") ?? (TestLength.isLong ? 1000 : TestLength.size(60))
        let seed = TestLength.number("OPSCRIPT_STORE_SEED").map(UInt64.init) ?? UInt64.random(in: 0...999_999)
        var random = SeededGenerator(seed: seed)
        var count = 0
        while count < kills {
            // Each graph has a folder, which goes through some edits; after each of them the work is interrupted a few times.
            let graphSeed = UInt64.random(in: 0...999, using: &random), nodes = Int.random(in: 5...40, using: &random)
            let graph = StoreGraph(seed: graphSeed, nodeCount: nodes)
            let folder = try Folder()
            graph.writeSources(in: folder.path, using: &random)
            for epoch in 0..<4 {
                let edits =
                    epoch == 0 ? [] : (0..<Int.random(in: 0...3, using: &random)).map { _ in graph.edit(in: folder.path, using: &random) }
                let place: Comment = "OPSCRIPT_STORE_SEED=\(seed), kill \(count), graph \(graphSeed) of \(nodes), epoch \(epoch): \(edits)"
                var done: Set<Substring> = []
                for _ in 0..<Int.random(in: 0...4, using: &random) {
                    count += 1
                    let run = try interruptedRun(folder, graphSeed, nodes, using: &random)
                    check(run, &done, place)
                }
                let last = try HostRun(folder, seed: graphSeed, nodes: nodes)
                #expect(last.status == 0, place)
                check(last, &done, place)
                // In a folder of its own, nothing can be skipped.
                let copy = try Folder()
                #expect(ChildProcess("/bin/cp", ["-r", folder.path + "/.", copy.path])?.wait() == 0)
                #expect(ChildProcess("/bin/rm", ["-rf", copy.path + "/.opscript"])?.wait() == 0)
                let whole = try HostRun(copy, seed: graphSeed, nodes: nodes)
                #expect(whole.status == 0, place)
                #expect(whole.events.allSatisfy { !$0.hasPrefix("skipped") }, place)
                #expect(last.output == whole.output, place)
                let idle = try HostRun(folder, seed: graphSeed, nodes: nodes)
                #expect(idle.status == 0 && idle.events.allSatisfy { $0.hasPrefix("skipped") }, place)
                #expect(idle.output == whole.output, place)
            }
        }
    }

    /// A run that is killed in the middle of a change of a file, or at any time. It may come to its end before.
    private func interruptedRun(_ folder: Folder, _ seed: UInt64, _ nodes: Int, using random: inout SeededGenerator) throws -> HostRun {
        if Bool.random(using: &random) {
            let run = try HostRun(folder, seed: seed, nodes: nodes, ["kill", "\(Int.random(in: 0..<nodes * 8, using: &random))"])
            #expect(run.status == 0 || run.status == 137)
            return run
        }
        let run = try HostRun(folder, seed: seed, nodes: nodes)
        // This waits for nothing: the process is killed at an arbitrary time.
        var pause = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<25_000_000, using: &random))
        pselect(0, nil, nil, nil, &pause, nil)
        run.kill()
        #expect(run.status == 0 || run.status == 137)
        return run
    }

    /// A finished step must not run again before a file is edited.
    private func check(_ run: HostRun, _ done: inout Set<Substring>, _ place: Comment) {
        _ = run.status
        for event in run.events {
            let words = event.split(separator: " ", maxSplits: 2)
            guard words.count >= 2 else { continue }
            switch words[0] {
            case "runs": #expect(!done.contains(words[1]), "\(place): \(event)")
            case "done": done.insert(words[1])
            case "not-recorded": Issue.record("\(place): \(event)")
            default: break
            }
        }
    }

    @Test("Two processes that do the same work at once do each part of it once")
    func twoProcesses() throws {
        for seed in 0..<UInt64(TestLength.size(10)) {
            let folder = try Folder()
            var random = SeededGenerator(seed: seed)
            StoreGraph(seed: seed, nodeCount: 30).writeSources(in: folder.path, using: &random)
            let runs = try (0..<3).map { _ in try HostRun(folder, seed: seed, nodes: 30) }
            for run in runs { #expect(run.status == 0) }
            #expect(runs[0].output == runs[1].output && runs[1].output == runs[2].output)
            let graph = StoreGraph(seed: seed, nodeCount: 30)
            let made = runs.flatMap(\.events).filter { $0.hasPrefix("runs ") }.map { $0.split(separator: " ")[1] }
            // Values without files need no lock, so two processes may compute one at once.
            for node in 0..<30 where graph.hasOutputs(node) { #expect(made.filter { $0 == "\(node)" }.count == 1, "seed \(seed)") }
        }
    }
}
