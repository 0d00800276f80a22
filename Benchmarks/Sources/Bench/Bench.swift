import Foundation

@main struct Bench {
    static let usage = """
        usage: scripts/bench [--quick] [--only W1,W2] [--rounds N] [--json FILE] [--plot DIR]
        """

    private var only: Set<String>?
    private var rounds: Int?
    private var isQuick = false
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
        try parse(arguments)
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
        guard let opscript = ProcessInfo.processInfo.environment["OPSCRIPT_COMMAND"] else { throw Failure("start it by scripts/bench") }
        let programs = Programs(folder: folder, opscript: opscript)
        let catalogue = Catalogue(programs: programs, isQuick: isQuick)
        let known = catalogue.all.map(\.name)
        for name in only ?? [] where !known.contains(name) {
            throw Failure("there is no workload \(name); there are \(known.joined(separator: ", "))")
        }
        print(machine())
        var outcomes: [Outcome] = []
        for workload in catalogue.all where only?.contains(workload.name) ?? true {
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
            if option == "--quick" {
                isQuick = true
                continue
            }
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

    private func write(_ objects: [[String: Any]], to file: String) throws(Failure) {
        do {
            let data = try JSONSerialization.data(withJSONObject: objects, options: [.prettyPrinted, .sortedKeys])
            try (data + Data("\n".utf8)).write(to: URL(fileURLWithPath: file))
        } catch {
            throw Failure("cannot write \(file): \(error.localizedDescription)")
        }
    }
}
