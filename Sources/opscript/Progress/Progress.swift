import CTerminal
import Glibc
import LuaBindings

/// Shows on stderr how far the operations have come. Its thread samples the counts ten times a second.
final class Progress: Sendable {
    private enum Style { case row, lines }

    private let style: Style
    private let monitor: RunMonitor
    private let start = ContinuousClock.now
    /// Its writing end is closed to stop the thread, which closes the writing end of `ended`.
    private let stop: (read: Int32, write: Int32)
    private let ended: (read: Int32, write: Int32)

    private static let firstAfter = 1000, interval = 100, lineInterval = 1000  // milliseconds

    /// Nil if nothing is to be shown.
    init?(_ mode: Options.Progress, _ monitor: RunMonitor) {
        let isTerminal = isatty(STDERR_FILENO) != 0
        let isCapable = isTerminal && Environment.hasCapableTerminal
        switch mode {
        case .never: return nil
        case .auto where !isCapable: return nil
        case .auto: style = .row
        case .always: style = isCapable ? .row : .lines
        }
        guard let stop = Self.makePipe() else { return nil }
        guard let ended = Self.makePipe() else {
            close(stop.read)
            close(stop.write)
            return nil
        }
        self.monitor = monitor
        (self.stop, self.ended) = (stop, ended)
        // Safety: balanced in `run`.
        let context = unsafe Unmanaged.passRetained(self).toOpaque()
        let hasStarted = unsafe ct_thread_start(
            { context in if let context = unsafe context { unsafe Unmanaged<Progress>.fromOpaque(context).takeRetainedValue().run() } },
            context)
        if !hasStarted {
            close(ended.write)
            unsafe Unmanaged<Progress>.fromOpaque(context).release()
        }
    }

    deinit {
        close(stop.read)
        close(ended.read)
    }

    /// Erases the row and ends the relay. Call once.
    func finish() {
        close(stop.write)
        var event = pollfd(fd: ended.read, events: 0, revents: 0)
        unsafe poll(&event, 1, 2000)
        if style == .row { ct_relay_end() }
    }

    private static func makePipe() -> (read: Int32, write: Int32)? {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    // MARK: on the thread

    private func run() {
        defer { close(ended.write) }
        guard !isStopped(within: Self.firstAfter) else { return }
        // A script without operations keeps its terminal.
        while monitor.counts().added == 0 { if isStopped(within: Self.interval) { return } }
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
            // The last column stays free, because terminals differ in where the cursor goes after it.
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
        ProgressLine(counts: monitor.counts(), running: monitor.executingNames(limit: 8), elapsed: .now - start)
    }

    private func isStopped(within milliseconds: Int) -> Bool {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while true {
            let left = ContinuousClock.now.duration(to: end)
            let wait = max(0, left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000)
            var event = pollfd(fd: stop.read, events: 0, revents: 0)
            let count = unsafe poll(&event, 1, Int32(wait))
            if count > 0 { return true }
            if count == 0 { return false }
        }
    }
}
