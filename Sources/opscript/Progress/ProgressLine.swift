import CText
import LuaBindings

/// One sample of the progress of a run, as text.
struct ProgressLine {
    let counts: RunMonitor.Counts
    /// The names of executing operations.
    let running: [String]
    /// The workers of clusters; nil if no queue uses one.
    var clusters: RunMonitor.Clusters?
    /// The time since the run began.
    let elapsed: Duration

    /// A row of a terminal: at most `width` columns.
    func row(width: Int, hasColor: Bool) -> String {
        var parts = [bar(cells: min(24, max(0, (width - 30) / 2)), hasColor: hasColor), "\(counts.finished)/\(counts.added)"]
        if counts.skipped > 0 { parts.append("\(counts.skipped) skipped") }
        if counts.failed > 0 { parts.append(Self.red("\(counts.failed) failed", hasColor)) }
        if let left = timeLeft { parts.append("\(left) left") }
        if let workers { parts.append(workers) }
        var row = Self.clip(parts.filter { !$0.isEmpty }.joined(separator: " "), to: width)
        var names = running[...]
        // Names fill the rest of the row. The last one may be cut.
        while let name = names.popFirst() {
            let room = width - Self.width(of: row)
            if room < 6 { break }
            row += Self.clip(" " + Self.printable(name), to: room)
        }
        return row
    }

    /// One line, for output that is no terminal.
    var line: String {
        var text = "\(counts.finished)/\(counts.added) operations done"
        if counts.skipped > 0 { text += ", \(counts.skipped) skipped" }
        if counts.failed > 0 { text += ", \(counts.failed) failed" }
        if !running.isEmpty { text += ", running " + running.map(Self.printable).joined(separator: ", ") }
        if let left = timeLeft { text += ", \(left) left" }
        if let workers { text += ", \(workers)" }
        return text
    }

    /// How many operations the workers of clusters run at once.
    private var workers: String? {
        guard let clusters else { return nil }
        if clusters.slots == 0 { return clusters.isWaiting ? "waiting for workers" : nil }
        let (workers, slots) = (clusters.workers, clusters.slots)
        return "\(workers) worker\(workers == 1 ? "" : "s") (\(slots) slot\(slots == 1 ? "" : "s"))"
    }

    private var fraction: Double { counts.added > 0 ? Double(counts.finished) / Double(counts.added) : 0 }

    private func bar(cells: Int, hasColor: Bool) -> String {
        guard cells >= 5 else { return "" }
        let full = min(cells, Int(fraction * Double(cells)))
        let text = "[" + String(repeating: "#", count: full) + String(repeating: ".", count: cells - full) + "]"
        return hasColor ? "\u{1b}[32m\(text)\u{1b}[0m" : text
    }

    private static func red(_ text: String, _ hasColor: Bool) -> String { hasColor ? "\u{1b}[31m\(text)\u{1b}[0m" : text }

    /// The time that the rest of the added operations will take at the pace so far. Nil during the first two seconds.
    private var timeLeft: String? {
        guard counts.finished > 0, counts.finished < counts.added, elapsed >= .seconds(2) else { return nil }
        let seconds = Double(elapsed.components.seconds) * Double(counts.added - counts.finished) / Double(counts.finished)
        let whole = Int(min(seconds, 1e7).rounded(.up))
        if whole < 60 { return "\(whole) s" }
        if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
        return "\(whole / 3600) h \(whole / 60 % 60) min"
    }

    // MARK: columns

    private static func printable(_ name: String) -> String {
        String(String.UnicodeScalarView(name.unicodeScalars.map { ctext_width($0.value) < 0 ? "?" : $0 }))
    }

    /// The width of `text` in columns. Colour sequences take none.
    static func width(of text: String) -> Int { measure(text, limit: .max).width }

    /// The beginning of `text` that fits into `width` columns.
    static func clip(_ text: String, to width: Int) -> String { measure(text, limit: width).fitting }

    private static func measure(_ text: String, limit: Int) -> (width: Int, fitting: String) {
        var (width, fitting, isEscape) = (0, String.UnicodeScalarView(), false)
        for scalar in text.unicodeScalars {
            if scalar == "\u{1b}" { isEscape = true }
            if isEscape {
                fitting.append(scalar)
                if scalar == "m" { isEscape = false }
                continue
            }
            let columns = max(0, Int(ctext_width(scalar.value)))
            // The sequence that ends a colour may follow, so the rest is scanned.
            if width + columns > limit { continue }
            width += columns
            fitting.append(scalar)
        }
        return (width, String(fitting))
    }
}
