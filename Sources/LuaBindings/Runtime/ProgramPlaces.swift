import CIO
import OpEngine
import OpPlatform

/// The programs that have the places of operations, and those that run.
///
/// Programs that mostly wait could keep all places for ever, such as a server whose clients are operations that cannot start. So while every
/// place is held by a program and work waits, this object samples what the programs compute. If they have computed next to nothing for some
/// seconds, it lends one place more, as if a worker's thread were blocked.
final class ProgramPlaces: Sendable {
    private struct Holder {
        let process: ChildProcess
        let operation: Operation?
        let inbox: Inbox
        var isLent = false

        var description: String {
            "'\(process.name)'" + ((operation as? LuaOperation).map { " of \($0.displayName)" } ?? "")
        }
    }

    private struct State {
        var holders: [Holder] = []
        /// The programs that have several places, even while their operations wait for something else.
        var heavy: [ChildProcess] = []
        /// The operations that wait for places to start a program.
        var waiting: [(operation: ObjectIdentifier, count: Int, name: String)] = []
        var timer: IOTimer?
        /// When the programs were last seen to compute, and their processor time then; nil if work does not wait.
        var lastUse: (instant: ContinuousClock.Instant, nanoseconds: UInt64)?
        var hasTold = false
        var runningCount = 0
        var endedCount = 0
        /// Whether a signal has ended a program since the jobserver had all its tokens.
        var mayLackTokens = false
        /// The inboxes to wake when a program ends.
        var inboxes: [Inbox] = []
    }

    private let engine: Engine
    private let jobserver: Jobserver?
    private let output: OutputSinks
    private let state = Guarded(State())

    /// Seconds without computing after which a place is lent.
    private static let patience = 5.0
    /// Seconds between two samples.
    private static let period = 1.0
    /// The part of a processor, for each program, that counts as computing.
    private static let computingShare = 0.05

    init(_ engine: Engine, _ jobserver: Jobserver?, output: OutputSinks) {
        (self.engine, self.jobserver, self.output) = (engine, jobserver, output)
    }

    // MARK: places

    /// `operation` waits for `process` in its place, on the worker with `inbox`.
    func holds(_ process: ChildProcess, for operation: Operation?, _ inbox: Inbox, _ io: IOThread) {
        state.withLock { $0.holders.append(Holder(process: process, operation: operation, inbox: inbox)) }
        startSampling(io)
    }

    private func startSampling(_ io: IOThread) {
        if state.withLock({ $0.timer != nil }) { return }
        let timer = io.after(Self.period, repeating: true) { [weak self] in self?.sample(at: .now) }
        let isSecond = state.withLock { state in
            if state.timer != nil { return true }
            state.timer = timer
            return false
        }
        if isSecond { timer.cancel() }
    }

    /// Returns whether the worker's place was lent, which ends now.
    func holdsNoMore(_ process: ChildProcess, _ inbox: Inbox) -> Bool {
        state.withLock { state in
            guard let index = state.holders.lastIndex(where: { $0.process === process && $0.inbox === inbox }) else { return false }
            return state.holders.remove(at: index).isLent
        }
    }

    func waits(_ operation: Operation, _ count: Int, for name: String) {
        state.withLock { $0.waiting.append((ObjectIdentifier(operation), count, name)) }
    }

    func waitsNoMore(_ operation: Operation) {
        state.withLock { $0.waiting.removeAll { $0.operation == ObjectIdentifier(operation) } }
    }

    // MARK: sampling

    /// Lends a place if every place is held and the programs have not computed for `patience`. On the I/O thread, or in tests.
    func sample(at now: ContinuousClock.Instant) {
        let groups = state.withLock { state -> [Int32] in
            if state.holders.isEmpty && state.heavy.isEmpty { state.timer.take()?.cancel() }
            return (state.holders.filter { !$0.isLent }.map(\.process) + state.heavy).map { Int32($0.number) }
        }
        var usage = cio_usage()
        guard unsafe !groups.isEmpty && engine.isEveryPlaceHeld && cio_groups_usage(groups, groups.count, &usage) else {
            return state.withLock { $0.lastUse = nil }
        }
        let (message, heavy) = state.withLock { state -> (String?, ChildProcess?) in
            // A program that waits for a processor would compute.
            guard let last = state.lastUse, !usage.is_running, usage.time >= last.nanoseconds,
                Double(usage.time - last.nanoseconds)
                    <= Self.computingShare * Double(groups.count) * 1e9 * (last.instant.duration(to: now) / .seconds(1))
            else {
                state.lastUse = (now, usage.time)
                return (nil, nil)
            }
            if last.instant.duration(to: now) < .seconds(Self.patience) { return (nil, nil) }
            state.lastUse = nil
            let message = exchange(&state.hasTold, with: true) ? nil : Self.places(of: state)
            guard let index = state.holders.firstIndex(where: { !$0.isLent }) else { return (message, state.heavy.popLast()) }
            state.holders[index].isLent = true
            engine.beginReplacingWorker(with: state.holders[index].inbox)
            return (message, nil)
        }
        heavy?.givePlaces()
        guard let message else { return }
        output.report(
            "opscript: \(message) and compute next to nothing for \(Self.patience.scriptText) s, so another operation runs: \(Self.advice)\n"
        )
    }

    private static let advice = "a program that mostly waits needs no place with slots = 0"

    private static func places(of state: State) -> String? {
        let heavy = state.heavy.filter { process in !state.holders.contains { $0.process === process } }
        let names = state.holders.map(\.description) + heavy.map { "'\($0.name)'" }
        if names.isEmpty { return nil }
        let named = names.prefix(3).joined(separator: ", ")
        let others = names.count > 3 ? " and \(names.count - 3) more" : ""
        return "programs have all places: \(named)\(others)"
    }

    /// The reason why an operation that is ready does not run, if programs have places.
    var purposeOfWait: String? {
        if let jobserver, engine.awaitsSource { return "for a place: \(jobserver.users) have them" }
        return state.withLock { Self.places(of: $0) }.map { "for a place: \($0); \(Self.advice)" }
    }

    /// The reason why an operation that executes waits; nil if it does not wait for places.
    func purposeOfWait(of operation: Operation) -> String? {
        state.withLock { state in
            guard let wait = state.waiting.first(where: { $0.operation == ObjectIdentifier(operation) }) else { return nil }
            let places = Self.places(of: state).map { ": \($0)" } ?? ""
            return "for \(wait.count == 1 ? "a place" : "\(wait.count) places") to start '\(wait.name)'\(places)"
        }
    }

    // MARK: running programs

    /// The number of programs that run or start.
    var runningCount: Int { state.withLock(\.runningCount) }
    /// The number of programs that have ended, or failed to start, so far.
    var endedCount: Int { state.withLock(\.endedCount) }

    /// A program is about to start. `hasEnded` must follow, also if it does not start.
    func starts() { state.withLock { $0.runningCount += 1 } }

    func hasStarted(_ process: ChildProcess, isHeavy: Bool, _ io: IOThread) {
        state.withLock { state in
            // The program may have ended already.
            if isHeavy && process.isRunning { state.heavy.append(process) }
        }
        if isHeavy { startSampling(io) }
    }

    func hasEnded(_ process: ChildProcess) {
        let inboxes = state.withLock { state in
            state.endedCount += 1
            state.runningCount -= 1
            // Programs that were killed have not returned their tokens.
            if process.wasKilled { state.mayLackTokens = true }
            if state.runningCount == 0, state.mayLackTokens {
                state.mayLackTokens = false
                jobserver?.refill(engine)
            }
            state.heavy.removeAll { $0 === process }
            return state.inboxes
        }
        for inbox in inboxes { inbox.wake() }
    }

    func wakeAtEnd(_ inbox: Inbox) { state.withLock { $0.inboxes.append(inbox) } }

    func wakeNoMore(_ inbox: Inbox) {
        state.withLock { state in
            if let index = state.inboxes.firstIndex(where: { $0 === inbox }) { state.inboxes.remove(at: index) }
        }
    }
}
