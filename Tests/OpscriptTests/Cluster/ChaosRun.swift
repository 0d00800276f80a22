import ClusterSupport
import Glibc
import TestSupport

/// A run of `Tests/Soak/chaos.lua` on a cluster that fails all the time.
struct ChaosRun: Sendable {
    struct Report: Sendable, CustomStringConvertible {
        let status: Int32?
        let lines: [String]
        let failures: [String]

        var description: String { "status \(status ?? -1)\n\(lines.suffix(20).joined(separator: "\n"))\nfailures: \(failures)" }
    }

    /// The same seed repeats the failures and the graphs, but not their moments.
    var seed = TestLength.number("OPSCRIPT_CHAOS_SEED") ?? Int.random(in: 0..<1 << 31)
    /// How many operations each graph has.
    var count = TestLength.number("OPSCRIPT_CHAOS_COUNT") ?? (TestLength.isLong ? 20_000 : 600)
    /// The number of bytes of the largest values.
    var largest = TestLength.isLong ? 2 << 20 : 1 << 20
    /// The script begins graphs for so many seconds, and at least one.
    var seconds = 0
    /// After so many failures the cluster is left alone, so that a short run ends soon.
    var mostFailures = TestLength.isLong ? Int.max : 8
    /// The memory and the descriptors of the processes that last.
    let growths = Locked<[Growth]>([])

    /// `scripts/soak --cluster` sets it.
    static var soakSeconds: Int? { TestLength.number("OPSCRIPT_CHAOS_SECONDS") }

    private enum Failure: CaseIterable {
        case worker, server, cut, freeze, stall
    }

    /// Runs the script to its end. If memory is watched, the workers 1 and 2 are neither killed nor stalled.
    func run(on cluster: TestCluster) throws -> Report {
        var random = SeededGenerator(seed: UInt64(seed))
        let folder = try ScratchDirectory()
        var command = Command.opscript()
        command.arguments = [
            "\(Paths.package)/Tests/Soak/chaos.lua", cluster.url, folder.path, "\(seed)", "\(count)", "\(largest)", "\(seconds)",
        ]
        // With many arenas, free memory is fragmented and looks like memory in use.
        command.environment = ["MALLOC_ARENA_MAX": "1"]
        let script = try Daemon(command, readyWhen: "ready")
        let survivors = seconds > 0 ? Array(cluster.allWorkers.prefix(2)) : []
        for process in [script] + survivors { growths.withLock { $0.append(Growth(of: process.identifier)) } }
        var workers = Array(cluster.allWorkers.dropFirst(survivors.count))
        var failures: [String] = []
        // A graph may take minutes while everything fails. The last one ends without failures.
        let peace = ContinuousClock.now + .seconds(seconds)
        let end = peace + .seconds(TestLength.isLong ? 1800 : 150)
        while !script.hasEnded(within: 0.8), ContinuousClock.now < end {
            if failures.count >= mostFailures || seconds > 0 && ContinuousClock.now > peace { continue }
            growths.withLock { growths in for index in growths.indices { growths[index].measure() } }
            let index = Int.random(in: workers.indices, using: &random)
            // A worker dies every other time at least.
            let dies = Bool.random(using: &random)
            let failure = dies ? Failure.worker : Failure.allCases.randomElement(using: &random) ?? .worker
            let duration = Double.random(in: 0.1...1.5, using: &random)
            failures.append("\(failure)")
            switch failure {
            case .worker:
                workers[index].kill()
                workers[index] = try cluster.addWorker("--slots", "2")
            case .server:
                cluster.server.end()
                try cluster.server.start()
            case .cut:
                cluster.proxy?.cut()
                _ = script.hasEnded(within: duration)
                cluster.proxy?.heal()
            case .freeze:
                cluster.proxy?.freeze()
                _ = script.hasEnded(within: duration)
                cluster.proxy?.heal()
            case .stall:
                workers[index].send(SIGSTOP)
                _ = script.hasEnded(within: duration)
                workers[index].send(SIGCONT)
            }
        }
        return Report(status: try script.wait(seconds: 1), lines: script.lines, failures: failures)
    }
}

/// How the memory and the descriptors of a process grow.
struct Growth: Sendable, CustomStringConvertible {
    private let process: pid_t
    private var kilobytes: [Int] = []
    private var descriptors: [Int] = []

    init(of process: pid_t) { self.process = process }

    mutating func measure() {
        let status = Paths.read("/proc/\(process)/status").map { String(decoding: $0, as: UTF8.self) } ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        guard let memory = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) }) else { return }
        kilobytes.append(memory)
        var count = 0
        if let folder = unsafe opendir("/proc/\(process)/fd") {
            while unsafe readdir(folder) != nil { count += 1 }
            unsafe closedir(folder)
        }
        descriptors.append(count)
    }

    /// The greatest values of the second and of the last quarter. Caches fill in the first quarter.
    private func peaks(_ values: [Int]) -> (before: Int, after: Int) {
        let quarter = values.count / 4
        return (values[quarter..<2 * quarter].max() ?? 0, values.suffix(quarter).max() ?? 0)
    }

    /// Whether the last quarter has more than chance explains.
    var isGrowing: Bool {
        guard kilobytes.count >= 40 else { return false }
        let (memory, open) = (peaks(kilobytes), peaks(descriptors))
        return memory.after > memory.before * 5 / 4 + 20_000 || open.after > open.before + 10
    }

    var description: String {
        let (memory, open) = (peaks(kilobytes), peaks(descriptors))
        return "process \(process): \(memory.before) kB, then \(memory.after) kB; \(open.before) descriptors, then \(open.after)"
    }
}
