import OpEngine

/// Writes the operations of a run and their dependencies in the language of Graphviz.
struct GraphWriter {
    /// Longer names are cut, because Graphviz does not wrap lines.
    private static let longestLabel = 80

    let log: RunLog
    let file: OutputFile

    func write() {
        file.append(
            """
            digraph run {
              rankdir=LR; nslimit=2; nslimit1=2; mclimit=0.2; fontname="sans-serif";
              node [shape=box, style="rounded,filled", fontname="sans-serif"];

            """)
        line("  label=", log.title, ";\n")
        // One cluster for each queue.
        var members = [[Int]](repeating: [], count: log.queues.count)
        for index in log.operations.indices { members[log.operations[index].queue].append(index) }
        for (queue, indices) in members.enumerated() where !indices.isEmpty {
            file.append("  subgraph cluster_")
            file.append(queue)
            file.append(" {\n    color=gray;\n")
            line("    label=", log.queues[queue].name.text, ";\n")
            for index in indices { writeNode(index) }
            file.append("  }\n")
        }
        for edge in log.edges {
            file.append("  o")
            file.append(edge.dependency)
            file.append(" -> o")
            file.append(edge.operation)
            file.append(";\n")
        }
        file.append("}\n")
    }

    private func writeNode(_ index: Int) {
        let operation = log.operations[index]
        file.append("    o")
        file.append(index)
        let outcome = operation.outcome.map { "\($0)" } ?? "unfinished"
        let time = operation.hasStarted ? GraphWriter.milliseconds(operation.runTime) : "did not run"
        line(" [label=", "\(log.label(of: operation).text)\n\(time)", "")
        let error = operation.error.flatMap { log.errors[$0].text.split(separator: "\n").first.map(String.init) }
        let details = [outcome, operation.place.map { log.texts[$0].text }, error].compactMap { $0 }.joined(separator: "\n")
        line(", tooltip=", details, "")
        file.append(", fillcolor=\"")
        switch operation.outcome {
        case .succeeded: file.append("#cdebc5")
        case .failed: file.append("#f7b5ad")
        case .cancelled: file.append("#dddddd")
        case nil: file.append("#fbe6a2")
        }
        file.append("\"];\n")
    }

    private func line(_ before: StaticString, _ text: String, _ after: StaticString) {
        file.append(before)
        file.append(verbatim: GraphWriter.quoted(text))
        file.append(after)
    }

    /// The text as a string of Graphviz that is shown as it is. A control character, which no picture may have, is shown as its symbol.
    static func quoted(_ text: String) -> String {
        var result = "\""
        var length = 0
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n":
                result += "\\n"
                length = -1
            case "\"", "\\": result += "\\\(scalar)"
            case "&": result += "&amp;"
            case "\u{FFFE}", "\u{FFFF}": result += "\u{FFFD}"
            case "\u{7F}": result += "\u{2421}"
            case "\0"..<" ": result.unicodeScalars.append(Unicode.Scalar(0x2400 + scalar.value) ?? "?")
            default:
                if length == longestLabel { result += "…" }
                if length < longestLabel { result.unicodeScalars.append(scalar) }
            }
            length += 1
        }
        return result + "\""
    }

    static func milliseconds(_ nanoseconds: UInt64) -> String {
        let hundredths = (nanoseconds + 5_000) / 10_000
        let rest = hundredths % 100
        return "\(hundredths / 100).\(rest < 10 ? "0" : "")\(rest) ms"
    }
}
