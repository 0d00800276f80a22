import CIO
import CLua
import OpEngine
import OpPlatform
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// A program that a script has started, together with its process group: everything that the program starts in turn.
///
/// A running process can still cause events, so the runtime reports no wait as one that can never end. A process with pipes causes none by itself
/// unless it calls back: it goes on when code reads or writes them, or waits for its end.
@safe
final class ChildProcess: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `start` writes `pointer`, `owner`, `handle` and `activity` once, before any thread but the I/O thread has
    // this object. The I/O thread reads `pointer` and `activity`, which are written before it gets the object. All other fields are constant,
    // locked or atomic.

    /// The name of the process in messages.
    let name: String
    /// Seconds after which the process is ended; nil for no limit.
    let timeout: Double?
    /// The bytes that each captured output may have.
    let captureLimit: Int
    /// The places that the process has while its operation waits for it.
    let slots: Int
    /// The places that it has besides that of its operation's worker.
    private let furtherPlaces = Atomic<Int>(0)
    /// Whether the process has the terminal while it runs.
    let hasTerminal: Bool
    /// Whether the process calls a function of `state` when it has ended.
    private let callsBack: Bool
    /// The state that gets the lines of stdout; nil if code reads it.
    private let lineState: LuaState?
    var hasLines: Bool { lineState != nil }
    /// The object that scripts have, while they have it.
    private(set) weak var handle: ScriptProcess?
    private let state: LuaState
    private let group: Runtime.Group?
    private let budget: RunBudget?
    private let charge: Charge?
    private var pointer: OpaquePointer?
    /// The operation that started the process. Used only for comparison.
    private var owner: ObjectIdentifier?
    /// The recorder's number of the process. Written before the process starts.
    private var activity: Int?
    private let ended = Atomic<Bool>(false)
    private let mutable = Guarded(Mutable())

    private struct Mutable {
        /// The inboxes to wake when the process ends: one for each wait.
        var waiting: [Inbox] = []
        /// Whether code has got the result of the process, or has ended it.
        var isKnown = false
        /// Whether code has sent a signal that ends most programs.
        var isToEnd = false
        /// Whether the process keeps the engine from reporting that nothing can happen any more.
        var holdsEngine = false
        var hasEnded = false
        /// The failure, if it may be unread.
        var failure: FailedProgram?
    }

    /// The default of `captureLimit`.
    static let captureLimit = 64 << 20

    /// - Parameter callsBack: whether the process has an `onExit`.
    /// - Parameter hasLines: whether it has an `onLine`.
    init(
        name: String, timeout: Double?, captureLimit: Int, slots: Int, hasTerminal: Bool, callsBack: Bool, hasLines: Bool,
        in state: LuaState
    ) {
        self.name = name
        self.timeout = timeout
        self.captureLimit = captureLimit
        self.slots = slots
        self.hasTerminal = hasTerminal
        self.callsBack = callsBack
        lineState = hasLines ? state : nil
        self.state = state
        group = unsafe state.group?.takeUnretainedValue()
        budget = state.budget
        charge = state.core.ledger.charge(.program, 2 * captureLimit)
    }

    deinit { if let pointer = unsafe pointer { unsafe cio_process_release(pointer) } }

    /// Starts the program, after a wait for its places, and for descriptors if the system has none left. On the state's thread. If `operation` is
    /// cancelled, now or later, the process is ended.
    func start(_ program: cio_program, for operation: LuaOperation?, as handle: ScriptProcess) throws(CallError) {
        let placeCount = try state.takePlaces(for: self)
        furtherPlaces.store(placeCount, ordering: .relaxed)
        if callsBack {
            do throws(Failure) { try state.expect(handle, .process) } catch {
                givePlaces()
                throw CallError(error)
            }
        }
        self.handle = handle
        state.core.expectWork()
        // Before the process starts, so that it cannot end first.
        let hasPipes =
            unsafe program.input_kind == CIO_INPUT_PIPE || program.outputs.0.kind == CIO_PIPE || program.outputs.1.kind == CIO_PIPE
        if !hasPipes || callsBack || lineState != nil { holdEngine() } else { state.core.programsWithPipes.add(self) }
        if state.isRecorded { activity = Recorder.activityBegan(name, by: operation) }
        state.core.programs.starts()
        do throws(CallError) {
            try state.retryingAtShortage { () throws(Failure) in
                try unsafe withUnsafeMutablePointer(to: &pointer) { pointer throws(Failure) in
                    try unsafe state.core.io.start(program, named: name, as: pointer) {
                        [keptHandle = callsBack || hasLines ? handle : nil] in
                        self.hasEnded(operation, keptHandle)
                    }
                }
            }
        } catch {
            state.core.programs.hasEnded(self)
            givePlaces()
            releaseEngine()
            state.forget(handle)
            if let activity { Recorder.activityEnded(activity, Failure(error).message) }
            throw error
        }
        state.core.programs.hasStarted(self, isHeavy: placeCount > 0, state.core.io)
        owner = operation.map { ObjectIdentifier($0) }
        operation?.adopt(self)
        group?.add(self)
    }

    /// Gives the handle our ends of the pipes. On the state's thread, when the program has started.
    func openPipes(of handle: ScriptProcess) throws(Failure) {
        guard let pointer = unsafe pointer else { return }
        for (standard, name) in ["stdin", "stdout", "stderr"].enumerated() {
            let descriptor = unsafe cio_process_pipe(pointer, Int32(standard))
            if descriptor < 0 { continue }
            let lines = standard == 1 ? lineState : nil
            guard let stream = ProgramStream(descriptor, name, writes: standard == 0, of: self, linesTo: lines, state.core.io) else {
                throw Failure(message: "not enough memory for the pipes to '\(self.name)'")
            }
            handle.add(stream, for: standard)
        }
    }

    /// Keeps the engine from reporting that nothing can happen any more, until the process has ended. Returns false if it has ended, or does so
    /// already.
    @discardableResult
    func holdEngine() -> Bool {
        mutable.withLock { mutable in
            if mutable.holdsEngine || mutable.hasEnded { return false }
            mutable.holdsEngine = true
            state.core.engine.hold()
            return true
        }
    }

    private func releaseEngine() {
        let holds = mutable.withLock { mutable in
            mutable.hasEnded = true
            return exchange(&mutable.holdsEngine, with: false)
        }
        if holds { state.core.engine.release() }
    }

    /// Gives back the places that the process has besides that of its operation's worker, at its end or before. From any thread.
    func givePlaces() { state.core.engine.givePlaces(furtherPlaces.exchange(0, ordering: .relaxed)) }

    /// Handles the end of the process. On the I/O thread.
    private func hasEnded(_ operation: LuaOperation?, _ keptHandle: ScriptProcess?) {
        if hasTerminal { ProgramTerminal.release() }
        if let charge, handle?.outputs.isEmpty ?? true, let pointer = unsafe pointer {
            let result = unsafe cio_process_result(pointer)
            charge.change(to: result.output_counts.0 + result.output_counts.1)
        }
        if let summary = failureSummary {
            operation?.noteFailedProgram("'\(name)' \(summary)")
            recordFailure(summary)
        }
        // The callbacks are posted before other threads learn of the end, so that they have run when a wait returns.
        if let keptHandle { state.post { self.callBack(keptHandle) } }
        ended.store(true, ordering: .releasing)
        if let activity { Recorder.activityEnded(activity, summary) }
        state.core.usage.returnProcess()
        operation?.disown(self)
        group?.remove(self)
        givePlaces()
        state.core.programs.hasEnded(self)
        for inbox in mutable.withLock({ $0.waiting }) { inbox.wake() }
        releaseEngine()
    }

    /// Records a failure that is reported at the end, unless code knows how the process ended, or learns it.
    private func recordFailure(_ summary: String) {
        guard !callsBack, let pointer = unsafe pointer, !wasLeft else { return }
        // The end of a program by Ctrl-C on its terminal interrupts the script as well.
        if hasTerminal, unsafe cio_process_result(pointer).signal_number == SIGINT { return }
        let failure = mutable.withLock { mutable in
            if !mutable.isKnown {
                let lastLine = unsafe Self.lastLine(of: output(1, of: cio_process_result(pointer)))
                mutable.failure = FailedProgram("'\(name)' \(summary), and no code has looked at its result\(lastLine)")
            }
            return mutable.failure
        }
        if let failure { state.core.record(failure) }
    }

    /// Whether SIGPIPE has ended the process because scripts have closed, or dropped, a pipe that it wrote to.
    private var wasLeft: Bool {
        guard let pointer = unsafe pointer, unsafe cio_process_result(pointer).signal_number == SIGPIPE else { return false }
        return handle?.outputs.contains(where: \.isClosed) ?? true
    }

    /// `: ` and the last line of an output that is not empty.
    private static func lastLine(of output: clua_item?) -> String {
        guard let output = unsafe output, unsafe output.count > 0 else { return "" }
        let bytes = unsafe UnsafeRawBufferPointer(start: output.bytes, count: output.count).suffix(1000)
        let line = unsafe String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline).last
        return line.map { ": \($0)" } ?? ""
    }

    /// Code gets the result, or ends the process: its failure is no news.
    func markKnown() {
        mutable.withLock { mutable in
            mutable.isKnown = true
            mutable.failure?.markRead()
        }
    }

    /// Whether the process has failed, and its failure is reported at the end unless code looks at it.
    var isFailureUnknown: Bool { result?.status != 0 && mutable.withLock { !$0.isKnown } }

    var isToEnd: Bool { mutable.withLock(\.isToEnd) }

    private func callBack(_ handle: ScriptProcess) {
        // The job may run before the I/O thread stores the flag.
        ended.store(true, ordering: .releasing)
        guard hasLines, let lines = handle.stream(1) else { return callOnExit(handle) }
        lines.afterLines { self.callOnExit(handle) }
    }

    private func callOnExit(_ handle: ScriptProcess) {
        guard callsBack else { return }
        unsafe withResult { result in
            unsafe state.runCallback(of: handle, for: group, argument: result, by: budget, named: "the onExit of '\(name)'")
        }
        state.forget(handle)
    }

    /// Calls the function in the handle of a stream, which keeps it. On the state's thread.
    func runCallback(of stream: ProgramStream, argument: UnsafePointer<clua_item>, named callback: String) {
        unsafe state.runCallback(of: stream, for: group, keeping: true, argument: argument, by: budget, named: callback)
    }

    var isRunning: Bool { !ended.load(ordering: .acquiring) }

    var number: Int {
        guard let pointer = unsafe pointer else { return 0 }
        return Int(unsafe cio_process_id(pointer))
    }

    /// Makes the end of the process wake `inbox`, until `stopWaking` has been called as often as `wake`.
    func wake(_ inbox: Inbox) { mutable.withLock { $0.waiting.append(inbox) } }

    func stopWaking(_ inbox: Inbox) {
        mutable.withLock { mutable in
            if let index = mutable.waiting.lastIndex(where: { $0 === inbox }) { mutable.waiting.remove(at: index) }
        }
    }

    func belongs(to operation: Operation?) -> Bool { owner != nil && owner == operation.map { ObjectIdentifier($0) } }

    /// Ends the program and its descendants: SIGTERM, and SIGKILL after the grace. After Ctrl-C SIGINT precedes both.
    ///
    /// - Parameter cause: the reason; nil for that of the whole runtime.
    func end(_ cause: cio_cause? = nil) {
        markKnown()
        mutable.withLock { $0.isToEnd = true }
        if let pointer = unsafe pointer { unsafe cio_process_end(pointer, cause ?? state.core.io.causeOfEnd) }
    }

    /// Sends a signal to the whole process group. Returns false if no process of the group is left.
    ///
    /// - Throws: the system's error message.
    func send(signal: Int32) throws(Failure) -> Bool {
        guard let pointer = unsafe pointer else { return false }
        markKnown()
        if [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGKILL].contains(signal) { mutable.withLock { $0.isToEnd = true } }
        let error = unsafe cio_process_signal(pointer, signal)
        if error == ESRCH { return false }
        if error != 0 { throw Failure(message: "cannot send a signal to '\(name)': \(unsafe String(cString: cio_error_text(error)))") }
        return true
    }

    // MARK: the result

    /// The result of the process; nil while it runs.
    var result: cio_result? {
        guard !isRunning, let pointer = unsafe pointer else { return nil }
        return unsafe cio_process_result(pointer)
    }

    /// Whether a signal has ended the program, or was to end it.
    var wasKilled: Bool { isToEnd || result.map { $0.signal_number > 0 } ?? false }

    /// The state of the process in a few words, for people.
    var summary: String { result.map(Self.summary) ?? "running, process \(number)" }

    private static func summary(of result: cio_result) -> String {
        if result.timed_out { return "ended by its timeout" }
        if result.wanted_terminal { return "ended because it wanted the terminal" }
        if result.exceeded_limit || result.lacked_memory { return "ended because it wrote too much" }
        if result.status >= 0 { return "exited with status \(result.status)" }
        return result.signal_number > 0 ? "killed by \(Signal.name(result.signal_number))" : "ended"
    }

    /// How the process ended, for people; nil if it succeeded. On the I/O thread, when the process has ended.
    private var failureSummary: String? {
        guard let pointer = unsafe pointer else { return nil }
        let result = unsafe cio_process_result(pointer)
        let isStopped = result.timed_out || result.exceeded_limit || result.lacked_memory || result.wanted_terminal
        return result.status == 0 && !isStopped ? nil : Self.summary(of: result)
    }

    /// Calls `body` with the table that scripts receive: status, signal, stdout, stderr, timedOut.
    func withResult(_ body: (UnsafePointer<clua_item>) -> Void) {
        guard let result else { return }
        let signal = result.signal_number > 0 ? Signal.name(result.signal_number) : nil
        var signalName = signal ?? ""
        signalName.withUTF8 { signalName in
            var table = ItemTable()
            if result.status >= 0 { unsafe table.append("status", clua_item(Int(result.status))) }
            if signal != nil { unsafe table.append("signal", clua_item(bytes: signalName.baseAddress, count: signalName.count)) }
            if let stdout = unsafe output(0, of: result) { unsafe table.append("stdout", stdout) }
            if let stderr = unsafe output(1, of: result) { unsafe table.append("stderr", stderr) }
            if result.timed_out { unsafe table.append("timedOut", clua_item(true)) }
            unsafe table.give(to: body)
        }
    }

    /// The output of the process to stdout (`index` 0) or stderr (1); nil if that was not captured. The bytes are valid as long as this object
    /// lives.
    func output(_ index: Int, of result: cio_result) -> clua_item? {
        let (bytes, count) = unsafe index == 0 ? (result.outputs.0, result.output_counts.0) : (result.outputs.1, result.output_counts.1)
        let isCaptured = index == 0 ? result.is_captured.0 : result.is_captured.1
        return unsafe isCaptured ? clua_item(bytes: UnsafeRawPointer(bytes)?.assumingMemoryBound(to: UInt8.self), count: count) : nil
    }

    /// The reason why a wait for the process must raise an error: the process exceeded its timeout, or its output exceeded the memory or the
    /// limit. Nil if the process runs, or has ended by itself or by a signal.
    var errorMessage: String? {
        guard let result else { return nil }
        if result.lacked_memory { return "not enough memory for what '\(name)' wrote: it was ended" }
        if result.exceeded_limit { return "'\(name)' wrote more than \(captureLimit) bytes to one output and was ended (captureLimit)" }
        if result.wanted_terminal { return "'\(name)' wants the terminal: pass terminal = true" }
        guard result.timed_out, let timeout else { return nil }
        var text = "'\(name)' took longer than \(timeout.scriptText) s and was ended"
        for (index, stream) in ["stdout", "stderr"].enumerated() {
            guard let output = unsafe output(index, of: result), unsafe output.count > 0 else { continue }
            let bytes = unsafe UnsafeRawBufferPointer(start: output.bytes, count: output.count)
            let words = unsafe String(decoding: bytes.suffix(1000), as: UTF8.self)
            text += "; it had written to \(stream): \(words.hasSuffix("\n") ? words.dropLast() : words[...])"
        }
        return text
    }
}

/// Signals, by their names without the prefix SIG.
enum Signal {
    static func name(_ number: Int32) -> String {
        unsafe cio_signal_name(number).map { unsafe String(cString: $0) } ?? "\(number)"
    }

    /// The number of "TERM" or "SIGTERM"; nil for an unknown name.
    static func number(_ name: String) -> Int32? {
        let short = name.hasPrefix("SIG") ? String(name.dropFirst(3)) : name
        return all.first { $0.name == short }?.number
    }

    static var names: [String] { all.map(\.name) }

    private static var all: [(number: Int32, name: String)] {
        (1..<32).compactMap { number in unsafe cio_signal_name(number).map { unsafe (number, String(cString: $0)) } }
    }
}
