import CTerminal
import Glibc
import LuaBindings
import OpPlatform
import Reports

/// Shows the progress of the operations on stderr. Its thread samples the counts ten times a second.
final class Progress: Sendable {
    private enum Style { case row, lines }

    private let style: Style
    private let monitor: RunMonitor
    private let start = ContinuousClock.now
    /// `finish` closes `stop` to stop the thread. The thread closes `ended` at its end.
    private let stop: Pipe
    private let ended: Pipe

    private static let firstAfter = 1000, interval = 100, lineInterval = 1000  // milliseconds

    /// Nil if nothing is to be shown.
    init?(_ mode: Options.Progress, _ monitor: RunMonitor) {
        guard let style = Self.style(mode) else { return nil }
        guard let stop = Pipe() else { return nil }
        guard let ended = Pipe() else {
            stop.closeWriting()
            stop.closeReading()
            return nil
        }
        (self.style, self.monitor) = (style, monitor)
        (self.stop, self.ended) = (stop, ended)
        if !tryStartThread({ [self] in run() }) { ended.closeWriting() }
    }

    /// Whether the terminal has a row that shows progress.
    static func showsRow(_ mode: Options.Progress) -> Bool { style(mode) == .row }

    private static func style(_ mode: Options.Progress) -> Style? {
        let isCapable = isatty(STDERR_FILENO) != 0 && Environment.hasCapableTerminal
        return switch mode {
        case .never: nil
        case .auto: isCapable ? .row : nil
        case .always: isCapable ? .row : .lines
        }
    }

    deinit {
        stop.closeReading()
        ended.closeReading()
    }

    /// Erases the row and ends the relay. Call once.
    func finish() {
        stop.closeWriting()
        _ = ended.isClosed(within: 2000)
        if style == .row { ct_relay_end() }
    }

    // MARK: on the thread

    private func run() {
        defer { ended.closeWriting() }
        guard !isStopped(within: Self.firstAfter) else { return }
        // A script without operations keeps its terminal, and so does a program.
        while monitor.counts().added == 0 || ct_is_lent() { if isStopped(within: Self.interval) { return } }
        switch style {
        case .row:
            // A run that ends earlier never gets a relay and writes to the terminal directly.
            guard ct_relay_begin(STDERR_FILENO) else { return showLines() }
            Runtime.beforeDeath { ct_relay_abandon() }
            showRows()
        case .lines: showLines()
        }
    }

    private func showRows() {
        let hasColor = Environment.allowsColors
        var last = ""
        repeat {
            // The last column stays free, because terminals differ in the place of the cursor after it.
            let columns = Int(ct_columns(STDERR_FILENO))
            let width = (columns > 0 ? columns : 80) - 1
            let line = sample()
            let isBusy = line.counts.finished < line.counts.added && ct_is_foreground()
            let row = isBusy && width > 0 ? line.row(width: width, hasColor: hasColor) : ""
            if row.isEmpty { ct_status_hide() } else if row != last { unsafe ct_status_show(row, row.utf8.count) }
            last = row
        } while !isStopped(within: Self.interval)
        ct_status_hide()
    }

    private func showLines() {
        var last: RunMonitor.Counts?
        repeat {
            let line = sample()
            if line.counts.added > 0, line.counts != last { Message.write("opscript: \(line.line)\n") }
            last = line.counts
        } while !isStopped(within: Self.lineInterval)
    }

    private func sample() -> ProgressLine {
        ProgressLine(
            counts: monitor.counts(), running: monitor.executingNames(limit: 8), clusters: monitor.clusters(), elapsed: .now - start)
    }

    private func isStopped(within milliseconds: Int) -> Bool { stop.isClosed(within: milliseconds) }
}
