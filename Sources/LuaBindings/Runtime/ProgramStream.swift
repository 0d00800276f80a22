import CIO
import CLua
import OpEngine
import OpPlatform

#if canImport(Glibc)
    import Glibc
#endif

/// Our end of a pipe to a program: of its stdin, stdout or stderr.
///
/// A state reads and writes on its own thread, and never blocks there. If the pipe is empty, or full, the state waits as for the end of a
/// program, and the I/O thread wakes it.
// Safety: `@unchecked Sendable` because C locks what `pointer` points to, `owner` is written once, before other threads have this object, only
// the thread of `lineState` uses `isDelivering`, `deliveredCount` and `afterLines`, and all other fields are constant or locked.
@safe
final class ProgramStream: EventSource, @unchecked Sendable {
    /// Such as `stdout of 'sort'`.
    let name: String
    let program: ChildProcess
    let pointer: OpaquePointer
    /// The handle of the program, with the program's other streams.
    weak var owner: ScriptProcess?
    private let signal: StreamSignal
    private let mutable = Guarded(Mutable())
    /// The state that calls the function in this object's handle with each line; nil if code reads the stream.
    private let lineState: LuaState?
    private var isDelivering = false
    /// The bytes of all lines so far.
    private var deliveredCount = 0
    /// The work that waits for the last lines.
    private var afterLines: (() -> Void)?

    private struct Mutable {
        /// The operation that has read last.
        weak var reader: Operation?
        /// The name of the program that reads the pipe in place of scripts.
        var receiver: String?
    }

    /// The lines that a state takes in one go, before it runs other callbacks.
    private static let mostLines = 1000
    /// The bytes that a pipe and one read may have, besides those that the stream keeps.
    private static let mostBytesInPipe = 1 << 17

    /// Takes ownership of the descriptor. Nil if memory has run out.
    init?(_ descriptor: Int32, _ name: String, writes: Bool, of program: ChildProcess, linesTo lineState: LuaState?, _ io: IOThread) {
        signal = StreamSignal()
        guard let pointer = unsafe io.stream(descriptor, writes: writes, limit: program.captureLimit, { [signal] in signal.announce() })
        else { return nil }
        unsafe self.pointer = pointer
        self.name = "\(name) of '\(program.name)'"
        self.program = program
        self.lineState = lineState
        if lineState == nil { return }
        signal.listen { [weak self] in
            guard let self else { return }
            self.lineState?.post { self.deliverLines() }
        }
    }

    deinit { unsafe cio_stream_release(pointer) }

    /// Closes the pipe: a program that writes to it gets SIGPIPE, and one that reads it sees the end. Ends all waits for it. From any thread.
    func close() { unsafe cio_stream_close(pointer) }

    var isClosed: Bool { unsafe cio_stream_is_closed(pointer) }

    func abandon() { close() }

    // MARK: waiting

    /// Makes events of the stream wake `inbox`, until `stopWaking` has been called as often as `wake`.
    func wake(_ inbox: Inbox) { signal.wake(inbox) }

    func stopWaking(_ inbox: Inbox) { signal.stopWaking(inbox) }

    /// Counts the events of the stream.
    var eventCount: Int { signal.count }

    /// Waits until the stream has had an event since there were `count`. Callbacks run meanwhile.
    ///
    /// - Parameter revision: what the stream kept at the read that found too little, as `cio_stream_take` has given it.
    /// - Throws: an error that ends the waiting body, if its operation was cancelled.
    func awaitEvent(after count: Int, revision: UInt32 = .max, in state: LuaState) throws(CallError) {
        guard unsafe cio_stream_watch(pointer, revision) else {
            if isClosed { return }
            throw .message("the runtime is being closed: \(name) cannot be used any more")
        }
        let operation = state.currentOperation
        let isOwn = program.belongs(to: operation)
        try program.wait(in: state, besides: self) { [signal, program] in
            // A process that has left the program's group may still hold the pipe.
            signal.count != count || isOwn && !program.isRunning && operation?.isCancelled ?? false
        }
        if signal.count == count, operation?.isCancelled ?? false { throw .stop(.interrupted) }
    }

    // MARK: reading

    /// Notes that `operation` is about to read the stream, by a method.
    ///
    /// - Throws: an error if the lines of the stream call a function, so that no code can read it.
    func beginReading(for method: String, by operation: Operation?) throws(CallError) {
        if hasLines { throw .message("\(method): the lines of \(name) go to its onLine") }
        isRead(by: operation)
    }

    /// Notes that `operation` reads the stream. Until it has finished, the program may write more than waits of others keep.
    func isRead(by operation: Operation?) { mutable.withLock { $0.reader = operation } }

    /// An operation besides `operation` that reads the stream and has not finished.
    func reader(besides operation: Operation?) -> Operation? {
        guard let reader = mutable.withLock({ $0.reader }), reader !== operation, !reader.isFinished else { return nil }
        return reader
    }

    /// Keeps what the program has written, so that the program can go on, until a script reads it. Returns false if that would be more than the
    /// program's `captureLimit`, or than memory has room for.
    func keep() -> Bool {
        let outcome = unsafe cio_stream_keep(pointer)
        if outcome == CIO_TAKE_LATER { _ = unsafe cio_stream_watch(pointer, .max) }
        return outcome != CIO_TAKE_LIMIT && outcome != CIO_TAKE_MEMORY
    }

    /// Waits after a `cio_stream_take`, or throws the error that its outcome stands for. `awaited` is a `CLUA_AWAITED`.
    func resume(after awaited: Int32, in state: LuaState) throws(CallError) {
        switch cio_take(UInt32(awaited & 0xff)) {
        case CIO_TAKE_LATER:
            isRead(by: state.currentOperation)
            try awaitEvent(after: eventCount, revision: UInt32(awaited >> 8), in: state)
        case CIO_TAKE_LIMIT:
            throw .message(
                "\(name): more than \(program.captureLimit) bytes at once: read less with read(n), or set captureLimit")
        case CIO_TAKE_CLOSED:
            throw .message("\(name) \(mutable.withLock(\.receiver).map { "goes to '\($0)': read that program" } ?? "is closed")")
        case CIO_TAKE_MEMORY: throw .noMemory
        default: throw .message("opscript bug: outcome \(awaited) of a read")
        }
    }

    /// Whether the lines of the stream call a function, so that no code can read it.
    var hasLines: Bool { lineState != nil }

    /// Whether lines still call the function in the handle while code of `state` waits. They do not while that function itself waits.
    func delivers(whileWaitingIn state: LuaState) -> Bool { lineState.map { $0 !== state || !isDelivering } ?? false }

    /// Makes the first line call the function in the handle.
    func beginLines() { _ = unsafe cio_stream_watch(pointer, .max) }

    /// Reads the lines that have arrived, and calls the function in the handle with each. Other callbacks run after some lines, unless the program
    /// has ended. On the state's thread.
    func deliverLines() {
        guard let lineState, !isDelivering else { return }
        isDelivering = true
        var hasMore = deliverSome(to: lineState)
        // A process that the program has left behind may write for ever.
        let start = deliveredCount
        while hasMore, afterLines != nil, deliveredCount - start < program.captureLimit + Self.mostBytesInPipe {
            hasMore = deliverSome(to: lineState)
        }
        isDelivering = false
        if hasMore { lineState.post { self.deliverLines() } }
        afterLines.take()?()
    }

    /// Calls `body` after the lines that the program, which has ended, has written.
    func afterLines(_ body: @escaping () -> Void) {
        afterLines = body
        deliverLines()
    }

    /// Returns whether more lines may have arrived.
    private func deliverSome(to lineState: LuaState) -> Bool {
        var bytes = [CChar](repeating: 0, count: 1 << 10)
        var lineCount = 0
        while lineCount < Self.mostLines {
            var count = 0
            let outcome = unsafe bytes.withUnsafeMutableBufferPointer { bytes in
                unsafe cio_take(
                    UInt32(
                        cio_stream_take(
                            UnsafeMutableRawPointer(pointer), Int32(CIO_LINE.rawValue), 0, bytes.baseAddress, bytes.count, &count)))
            }
            switch outcome {
            case CIO_TAKEN:
                lineCount += 1
                deliveredCount += count + 1
                call(with: bytes.prefix(count), in: lineState)
            case CIO_TAKE_ROOM: bytes = [CChar](repeating: 0, count: count)
            case CIO_TAKE_LATER:
                if unsafe !cio_stream_watch(pointer, UInt32(count)) { lineState.forget(self) }
                return false
            case CIO_TAKE_LIMIT, CIO_TAKE_MEMORY:
                lineState.core.reportCallbackError("\(name) has a line of more than \(program.captureLimit) bytes (captureLimit)")
                program.end()
                close()
            default:
                lineState.forget(self)
                return false
            }
        }
        return true
    }

    private func call(with line: ArraySlice<CChar>, in state: LuaState) {
        unsafe line.withUnsafeBufferPointer { line in
            var item = unsafe clua_item()
            unsafe item.type = LUA_TSTRING
            unsafe item.bytes = line.baseAddress
            unsafe item.count = line.count
            unsafe program.runCallback(of: self, argument: &item, named: "the onLine of '\(program.name)'")
        }
    }

    // MARK: writing, and other programs

    /// Writes bytes, and waits while the pipe is full.
    func write(_ bytes: UnsafeBufferPointer<CChar>, in state: LuaState) throws(CallError) {
        var written = 0
        while true {
            let count = eventCount
            var part = 0
            let error = unsafe cio_stream_write(pointer, bytes.baseAddress.map { unsafe $0 + written }, bytes.count - written, &part)
            written += part
            switch error {
            case 0: return
            case EAGAIN: try awaitEvent(after: count, in: state)
            case EBADF: throw .message("\(name) is closed")
            case EPIPE: throw .message("cannot write to \(name): the program does not read it any more")
            default: throw .message("cannot write to \(name): \(unsafe String(cString: cio_error_text(error)))")
            }
        }
    }

    /// Calls `body` with a descriptor of the pipe, which another program is to read as its stdin. If that succeeds, the pipe belongs to that program.
    func lend(to name: String, _ body: (Int32) throws(CallError) -> Void) throws(CallError) {
        var reason: Int32 = 0
        let descriptor = unsafe cio_stream_lend(pointer, &reason)
        guard descriptor >= 0 else {
            let why = reason == 0 ? isClosed ? "it is closed" : "it was read from" : unsafe String(cString: cio_error_text(reason))
            throw .message("\(self.name) cannot go to '\(name)': \(why)")
        }
        do throws(CallError) { try body(descriptor) } catch {
            unsafe cio_stream_take_back(pointer, descriptor)
            throw error
        }
        Glibc.close(descriptor)
        mutable.withLock { $0.receiver = name }
        close()
    }
}
