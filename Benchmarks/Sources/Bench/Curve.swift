/// How a cost grows with a parameter.
struct Curve {
    var name: String
    var title: String
    var unit = "ns"
    /// The command that measures a subject at each value of the x axis.
    var series: [(subject: String, points: [(x: Double, command: [String])])]

    static func all(_ programs: Programs, isQuick: Bool) -> [Curve] {
        func series(_ subject: String, _ program: String, _ xs: [Int], _ arguments: (Int) -> [String]) -> (String, [(Double, [String])])? {
            let path = programs.path(of: program)
            return programs.isThere(path) ? (subject, xs.map { (Double($0), [path] + arguments($0)) }) : nil
        }
        /// A curve over the number of operations, with every peer that has the workload. `slow` is the largest number for slow peers.
        func byCount(_ name: String, _ title: String, _ workload: String, _ counts: [Int], slow: Int) -> Curve {
            let all = counts.filter { !isQuick || $0 <= 100_000 }
            let arguments: @Sendable (Int) -> [String] = { [workload, "\($0)"] }
            let series = [
                series("OpEngine", "OpEngineSubject", all, arguments),
                series("Foundation", "FoundationSubject", all.filter { $0 <= slow }, arguments),
                series("libdispatch", "DispatchSubject", all, arguments),
                series("oneTBB", "TBBSubject", all, arguments),
                series("C", "CSubject", all, arguments),
            ]
            return Curve(name: name, title: title, series: series.compactMap { $0 })
        }
        func ours(_ name: String, _ title: String, _ numbers: [Int] = [1, 2, 4, 8, 16, 32, 64]) -> Curve {
            let count = isQuick ? "10000" : "100000"
            return Curve(
                name: name, title: title,
                series: [series("OpEngine", "OpEngineSubject", numbers) { ["\(name)-\($0)", count] }].compactMap { $0 })
        }
        return [
            byCount(
                "operations", "cost of an operation, by number of operations", "W1", [1000, 10_000, 100_000, 1_000_000, 3_000_000],
                slow: 100_000),
            byCount("chain", "cost of a link, by length of the chain", "W2", [100, 1000, 10_000, 100_000], slow: 1000),
            byCount("dependents", "cost of a dependent of one gate, by their number", "W3", [100, 1000, 10_000, 100_000], slow: 10_000),
            ours("dependencies", "cost of an operation, by its dependencies"),
            ours("queues", "cost of an operation, by number of queues"),
            ours("observers", "cost of an operation, by observers of its queue"),
            ours("workers", "cost of an operation, by number of workers"),
            ours("waiting", "cost of an operation, by how many wait in its queue", [1000, 10_000, 100_000, 1_000_000]),
            Curve(
                name: "script-waiting", title: "time of a script's exchange, by its operations with completion blocks that wait",
                unit: "µs",
                series: [
                    (
                        "opscript",
                        [1000, 10_000, 100_000].map {
                            (Double($0), [programs.opscript, programs.scripts + "/opscript.lua", "L5-waiting", "\($0)"])
                        }
                    )
                ]),
        ]
    }

    func measure(_ programs: Programs, rounds: Int) throws(Failure) -> [(name: String, points: [(x: Double, y: Double)])] {
        var lines: [(name: String, points: [(x: Double, y: Double)])] = []
        for (subject, points) in series {
            var line: [(x: Double, y: Double)] = []
            for (x, command) in points {
                var sample = Sample()
                for _ in 0..<rounds {
                    guard let value = try programs.run(Subject(name: subject, commands: [command])) else { break }
                    sample.values.append(value)
                }
                if !sample.values.isEmpty { line.append((x, sample.median)) }
            }
            if !line.isEmpty { lines.append((subject, line)) }
        }
        return lines
    }

    func table(_ series: [(name: String, points: [(x: Double, y: Double)])]) -> String {
        ([title]
            + series.map { line in
                "  \(line.name): " + line.points.map { "\(Int($0.x)): \(short($0.y))" }.joined(separator: ", ") + " \(unit)"
            })
            .joined(separator: "\n")
    }
}
