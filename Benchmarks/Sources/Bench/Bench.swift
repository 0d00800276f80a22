import Foundation

@main struct Bench {
    static let usage = """
        usage: scripts/bench [--quick] [--only W1,W2] [--rounds N] [--json FILE] [--plot DIR] [--curves]
                             [--processor-time]
        """

    private var only: Set<String>?
    private var rounds: Int?
    private var isQuick = false
    private var drawsCurves = false
    private var comparesProcessorTime = false
    private var json: String?
    private var plots: String?

    static func main() {
        do throws(Failure) {
            var bench = Bench()
            try bench.run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("bench: \(error.text)\n".utf8))
            exit(1)
        }
    }

    private mutating func run(_ arguments: [String]) throws(Failure) {
        if arguments.first == "--start" { return print(try startTime(of: Array(arguments.dropFirst()))) }
        if arguments.first == "--instructions" { return print(try instructions(of: Array(arguments.dropFirst()))) }
        try parse(arguments)
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
        let environment = ProcessInfo.processInfo.environment
        guard let opscript = environment["OPSCRIPT_COMMAND"], let scripts = environment["BENCH_SCRIPTS"] else {
            throw Failure("start it by scripts/bench")
        }
        var programs = Programs(
            folder: folder, opscript: opscript, scripts: scripts,
            missing: Set((environment["BENCH_WITHOUT"] ?? "").split(separator: " ").map(String.init)))
        programs.comparesProcessorTime = comparesProcessorTime
        let catalogue = Catalogue(programs: programs, isQuick: isQuick)
        let known = catalogue.all.map(\.name)
        for name in only ?? [] where !known.contains(name) {
            throw Failure("there is no workload \(name); there are \(known.joined(separator: ", "))")
        }
        print(machine())
        if drawsCurves { return try draw(Curve.all(programs, isQuick: isQuick), programs) }
        var outcomes: [Outcome] = []
        for var workload in catalogue.all where only?.contains(workload.name) ?? true {
            if comparesProcessorTime {
                guard ["ns", "µs", "ms"].contains(workload.unit), workload.name != "S" else { continue }
                // The goals are about elapsed time, so they do not apply to processor time.
                (workload.unit, workload.goals) = ("ns", [])
            }
            let outcome = try programs.measure(workload, rounds: rounds ?? (isQuick ? 3 : 5))
            print(outcome.table)
            outcomes.append(outcome)
        }
        print(machine())
        if let json { try write(outcomes.flatMap(\.json), to: json) }
        if let plots { for outcome in outcomes { try outcome.bars.write(to: plots, name: outcome.workload.name) } }
    }

    private mutating func parse(_ arguments: [String]) throws(Failure) {
        var left = arguments[...]
        while let option = left.popFirst() {
            switch option {
            case "--quick": isQuick = true
            case "--curves": drawsCurves = true
            case "--processor-time": comparesProcessorTime = true
            default: break
            }
            if ["--quick", "--curves", "--processor-time"].contains(option) { continue }
            guard let value = left.popFirst() else { throw Failure(Bench.usage) }
            switch option {
            case "--only": only = Set(value.split(separator: ",").map(String.init))
            case "--rounds":
                guard let number = Int(value), number > 0 else { throw Failure("--rounds takes a number above 0, not '\(value)'") }
                rounds = number
            case "--json": json = value
            case "--plot": plots = value
            default: throw Failure(Bench.usage)
            }
        }
    }

    private func draw(_ curves: [Curve], _ programs: Programs) throws(Failure) {
        for curve in curves where only?.contains(curve.name) ?? true {
            let series = try curve.measure(programs, rounds: rounds ?? 3)
            print(curve.table(series))
            if let plots { try Plot.lines(title: curve.title, unit: curve.unit, series).write(to: plots, name: curve.name) }
        }
    }

    private func write(_ objects: [[String: Any]], to file: String) throws(Failure) {
        do {
            let data = try JSONSerialization.data(withJSONObject: objects, options: [.prettyPrinted, .sortedKeys])
            try (data + Data("\n".utf8)).write(to: URL(fileURLWithPath: file))
        } catch {
            throw Failure("cannot write \(file): \(error.localizedDescription)")
        }
    }
}
