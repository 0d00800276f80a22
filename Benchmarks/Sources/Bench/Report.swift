import Foundation

/// Rounds to three significant digits.
func short(_ value: Double) -> String {
    let digits = value == 0 ? 0 : max(0, 2 - Int(floor(log10(abs(value)))))
    return String(format: "%.\(digits)f", value)
}

private func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

/// The processors and their load, without which the figures mean nothing.
func machine() -> String {
    let information = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
    let model = information.split(separator: "\n").first { $0.hasPrefix("model name") }?.split(separator: ":").last
    let load = ((try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)) ?? "").split(separator: " ").first ?? "?"
    let name = model.map { $0.trimmingCharacters(in: .whitespaces) } ?? "unknown processor"
    return "\(ProcessInfo.processInfo.activeProcessorCount) × \(name), load \(load)"
}

extension Outcome {
    /// One line for our subject and one for each peer.
    var table: String {
        let head = "\(padded(workload.name, 10)) \(padded(workload.title, 34))"
        let value = padded("\(short(ours.median)) \(workload.unit)", 12)
        var lines = ["\(head) \(padded(workload.ours.name, 12)) \(value) \(padded(verdict(nil), 30)) \(distance)"]
        for peer in peers {
            guard let ratio = ratio(to: peer.name) else { continue }
            let value = padded("\(short(peer.sample.median)) \(workload.unit)", 12)
            let text = padded("\(short(ratio.median)) (\(short(ratio.least)) to \(short(ratio.most)))", 24)
            lines.append("\(padded("", 45)) \(padded(peer.name, 12)) \(value) ratio \(text) \(verdict(peer.name))")
        }
        return lines.joined(separator: "\n")
    }

    /// The round-trip time between two processors. The processors of a virtual machine may share a cache at one moment and not at the next.
    private var distance: String {
        if roundTrips.most == 0 { return "" }
        return "(processors \(short(roundTrips.median)) ns apart, \(short(roundTrips.least)) to \(short(roundTrips.most)))"
    }

    /// The goal against a peer, and whether it is reached.
    private func verdict(_ peer: String?) -> String {
        guard let goal = workload.goals.first(where: { $0.peer == peer }) else { return "" }
        let sign = workload.moreIsBetter ? "≥" : "≤"
        let limits = [("", goal.must), ("best ", goal.best)].compactMap { name, limit in
            limit.map { "\(name)\(sign) \(short($0)) \(isMet($0, of: goal) == true ? "yes" : "NO")" }
        }
        return "goal " + limits.joined(separator: ", ")
    }

    /// One object for each subject. Only our subject has ratios and goals.
    var json: [[String: Any]] {
        func object(_ name: String, _ sample: Sample) -> [String: Any] {
            [
                "workload": workload.name, "subject": name, "unit": workload.unit, "median": sample.median, "min": sample.least,
                "max": sample.most, "rounds": sample.values.count, "ratios": [String: Any](), "goal": [String: Any](), "met": true,
            ]
        }
        var mine = object(workload.ours.name, ours)
        var ratios: [String: Any] = [:]
        for peer in peers {
            guard let ratio = ratio(to: peer.name) else { continue }
            ratios[peer.name] = ["median": ratio.median, "min": ratio.least, "max": ratio.most]
        }
        var goals: [String: Any] = [:]
        for goal in workload.goals {
            goals[goal.peer ?? "value"] = ["must": goal.must, "best": goal.best].compactMapValues { $0 }
        }
        mine["ratios"] = ratios
        mine["goal"] = goals
        mine["met"] = isMet
        return [mine] + peers.map { object($0.name, $0.sample) }
    }
}
