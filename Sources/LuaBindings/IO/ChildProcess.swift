import CIO
import CLua
@_spi(Locking) import OpEngine
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// A program that a script has started, and everything that the program starts in its turn: its process group.
///
/// Until it has ended something may still happen: no wait is reported as one that can never end.
@safe
final class ChildProcess: EventSource, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `pointer` is written once, by `start`, before anybody but the I/O thread has this, which
    // does not read it; all else is constant, locked or atomic.

    /// What messages call it.
    let name: String
    /// Seconds after which it is ended.
    let timeout: Double?
    /// It calls a function of `state` when it has ended.
    private let callsBack: Bool
    private let state: LuaState
    private var pointer: OpaquePointer?
    /// The operation that started it, compared only.
    private var owner: ObjectIdentifier?
    private let ended = Atomic<Bool>(false)
    private let mutable = Guarded(Mutable())

    private struct Mutable {
        /// Whoever waits for it.
        var waiting: [Inbox] = []
    }

    init(name: String, timeout: Double?, callsBack: Bool, in state: LuaState) {
        self.name = name
        self.timeout = timeout
        self.callsBack = callsBack
        self.state = state
    }

    deinit { if let pointer = unsafe pointer { unsafe cio_process_release(pointer) } }

    /// On the state's thread. What is cancelled, or has been, ends what it has started.
    func start(_ program: cio_program, for operation: LuaOperation?) throws(Failure) {
        if callsBack { try state.expect(self, .process) }
        state.core.expectWork()
        state.core.engine.hold()
        do throws(Failure) {
            unsafe pointer = try state.core.io.start(program, named: name) { self.hasEnded(operation) }
        } catch {
            state.core.engine.release()
            state.forget(self)
            throw error
        }
        owner = operation.map { ObjectIdentifier($0) }
        operation?.adopt(self)
    }

    /// On the I/O thread.
    private func hasEnded(_ operation: LuaOperation?) {
        // Before anybody is told: after a wait it has been called.
        if callsBack { state.post { self.callBack() } }
        ended.store(true, ordering: .releasing)
        operation?.disown(self)
        for inbox in mutable.withLock({ $0.waiting }) { inbox.wake() }
        state.core.engine.release()
    }

    private func callBack() {
        // The job may be faster than who posted it.
        ended.store(true, ordering: .releasing)
        unsafe withResult { result in
            unsafe state.runCallback(of: self, argument: result, named: "the onExit of '\(name)'")
        }
        state.forget(self)
    }

    /// It has nobody to call any more, and goes on.
    func abandon() {}

    var isRunning: Bool { !ended.load(ordering: .acquiring) }

    var number: Int {
        guard let pointer = unsafe pointer else { return 0 }
        return Int(unsafe cio_process_id(pointer))
    }

    /// Wakes `inbox` when it ends.
    func wake(_ inbox: Inbox) {
        mutable.withLock { mutable in
            if !mutable.waiting.contains(where: { $0 === inbox }) { mutable.waiting.append(inbox) }
        }
    }

    func belongs(to operation: Operation?) -> Bool { owner != nil && owner == operation.map { ObjectIdentifier($0) } }

    /// Ends all of it: SIGTERM, and SIGKILL for who is left two seconds later.
    func end() { if let pointer = unsafe pointer { unsafe cio_process_end(pointer) } }

    /// Sends a signal to all of it; false when there is nothing left.
    ///
    /// - Throws: what the system says.
    func send(signal: Int32) throws(Failure) -> Bool {
        guard let pointer = unsafe pointer else { return false }
        let error = unsafe cio_process_signal(pointer, signal)
        if error == ESRCH { return false }
        if error != 0 { throw Failure(message: "cannot send a signal to '\(name)': \(unsafe String(cString: cio_error_text(error)))") }
        return true
    }

    // MARK: how it ended

    /// Nil while it runs.
    var result: cio_result? {
        guard !isRunning, let pointer = unsafe pointer else { return nil }
        return unsafe cio_process_result(pointer)
    }

    /// For people.
    var summary: String {
        guard let result else { return "running, process \(number)" }
        if result.timed_out { return "ended by its timeout" }
        if result.status >= 0 { return "exited with status \(result.status)" }
        return result.signal_number > 0 ? "killed by \(Signal.name(result.signal_number))" : "ended"
    }

    /// Calls `body` with the table that scripts get: status, signal, stdout, stderr, timedOut.
    func withResult(_ body: (UnsafePointer<clua_item>) -> Void) {
        guard let result else { return }
        let signal = result.signal_number > 0 ? Signal.name(result.signal_number) : nil
        var signalName = signal ?? ""
        signalName.withUTF8 { signalName in
            var items = unsafe [clua_item()]
            func append(_ key: StaticString, _ value: clua_item) {
                unsafe items.append(clua_item(bytes: key.utf8Start, count: key.utf8CodeUnitCount))
                unsafe items.append(value)
                unsafe items[0].count += 1
            }
            unsafe items[0].type = LUA_TTABLE
            if result.status >= 0 { unsafe append("status", clua_item(Int(result.status))) }
            if signal != nil { unsafe append("signal", clua_item(bytes: signalName.baseAddress, count: signalName.count)) }
            if let stdout = unsafe output(0, of: result) { unsafe append("stdout", stdout) }
            if let stderr = unsafe output(1, of: result) { unsafe append("stderr", stderr) }
            if result.timed_out { unsafe append("timedOut", clua_item(true)) }
            unsafe items.withUnsafeBufferPointer { items in
                if let start = items.baseAddress { unsafe body(start) }
            }
        }
    }

    /// What it wrote to stdout (0) or stderr (1), as long as this object lives; nil when it was not captured.
    func output(_ index: Int, of result: cio_result) -> clua_item? {
        let (bytes, count) = unsafe index == 0 ? (result.outputs.0, result.output_counts.0) : (result.outputs.1, result.output_counts.1)
        let isCaptured = index == 0 ? result.is_captured.0 : result.is_captured.1
        return unsafe isCaptured ? clua_item(bytes: UnsafeRawPointer(bytes)?.assumingMemoryBound(to: UInt8.self), count: count) : nil
    }

    /// Why nothing good can be said of how it ended; nil where it ended by itself or by a signal.
    var complaint: String? {
        guard let result else { return nil }
        if result.lacked_memory { return "not enough memory for what '\(name)' wrote: it was ended" }
        guard result.timed_out, let timeout else { return nil }
        var text = "'\(name)' took longer than \(timeout.scriptText) s and was ended"
        for (index, stream) in ["stdout", "stderr"].enumerated() {
            guard let output = unsafe output(index, of: result), unsafe output.count > 0 else { continue }
            let bytes = unsafe UnsafeRawBufferPointer(start: output.bytes, count: output.count)
            text += unsafe "; it had written to \(stream): \(String(decoding: bytes.suffix(1000), as: UTF8.self))"
        }
        return text
    }
}

extension clua_item {
    fileprivate init(_ value: Int) {
        unsafe self.init()
        unsafe type = LUA_TNUMBER
        unsafe is_integer = true
        unsafe integer = lua_Integer(value)
    }

    fileprivate init(_ value: Bool) {
        unsafe self.init()
        unsafe type = LUA_TBOOLEAN
        unsafe integer = value ? 1 : 0
    }

    fileprivate init(bytes: UnsafePointer<UInt8>?, count: Int) {
        unsafe self.init()
        unsafe type = LUA_TSTRING
        unsafe self.bytes = UnsafeRawPointer(bytes)?.assumingMemoryBound(to: CChar.self)
        unsafe self.count = count
    }
}

/// Signals by their names without SIG.
enum Signal {
    static func name(_ number: Int32) -> String {
        unsafe cio_signal_name(number).map { unsafe String(cString: $0) } ?? "\(number)"
    }

    /// "TERM" or "SIGTERM"; nil for an unknown one.
    static func number(_ name: String) -> Int32? {
        let short = name.hasPrefix("SIG") ? String(name.dropFirst(3)) : name
        return all.first { $0.name == short }?.number
    }

    static var names: [String] { all.map(\.name) }

    private static var all: [(number: Int32, name: String)] {
        (1..<32).compactMap { number in unsafe cio_signal_name(number).map { unsafe (number, String(cString: $0)) } }
    }
}
