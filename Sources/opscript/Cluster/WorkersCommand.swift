import LuaBindings
import OpCluster

/// `opscript workers`: lists the workers of a cluster.
enum WorkersCommand {
    static let usage = """
        usage: opscript workers --cluster URL [options]
        Lists the workers of a cluster: what they are called, where they run, how many operations they run at once, have now and
        have ended, the load of their machine, and their version.
        \(ClusterOptions.usage)

        """

    /// Seconds to wait for the workers' answers.
    private static let seconds = 1.0

    /// Returns the exit status.
    static func run(_ words: [String], name: String) -> Int32 {
        if words == ["--help"] {
            Message.output(usage)
            return 0
        }
        do {
            var options = ClusterOptions(), index = 0
            while index < words.count {
                let word = words[index]
                index += 1
                if try !options.read(word, from: words, &index) { throw UsageError(message: "unrecognized option '\(word)'") }
            }
            guard options.url != nil, let cluster = try options.cluster() else {
                throw UsageError(message: "the list of workers needs '--cluster' and the URL of a NATS server")
            }
            if let missing = NatsFabric.missing { throw ClusterError(missing) }
            let survey = ClusterSurvey(NatsFabric(cluster.server), key: cluster.key)
            let (workers, foreignCount) = try survey.run(seconds: seconds)
            Message.output(table(workers))
            if foreignCount > 0 {
                Message.write("\(name): other workers answer, whose key (--key) or version of opscript is another one\n")
            }
            if workers.isEmpty && foreignCount == 0 { Message.write("\(name): no worker answers\n") }
            return workers.isEmpty ? 1 : 0
        } catch let error as UsageError {
            Message.write("\(name): \(error.message)\n\(usage)")
        } catch { Message.write("\(name): \(error)\n") }
        return 1
    }

    private static func table(_ workers: [WorkerDescription]) -> String {
        if workers.isEmpty { return "" }
        var rows = [["NAME", "HOST", "PID", "SLOTS", "RUNNING", "ENDED", "LOAD", "VERSION"]]
        for worker in workers {
            let load = (worker.load * 100).rounded() / 100
            rows.append([
                worker.name, worker.host, "\(worker.process)", "\(worker.slots)", "\(worker.taskCount)", "\(worker.endedCount)", "\(load)",
                worker.version,
            ])
        }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let lines = rows.map { row in
            zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ")
        }
        return lines.map { String($0.reversed().drop { $0 == " " }.reversed()) + "\n" }.joined()
    }
}
