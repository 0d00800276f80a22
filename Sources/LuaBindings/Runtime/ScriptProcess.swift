import CIO
import OpEngine
import OpPlatform

/// The object that scripts have of a program: the program, and our ends of its pipes.
///
/// A running program does not keep this object. If no script has it any more, its pipes are closed, and a program that writes to them ends.
final class ScriptProcess: EventSource {
    let program: ChildProcess
    /// Of stdin, stdout and stderr; nil where the program has no pipe. Written when the program has started.
    private let streams = Guarded([ProgramStream?](repeating: nil, count: 3))

    init(_ program: ChildProcess) { self.program = program }

    /// Does nothing: the program keeps running without a callback.
    func abandon() {}

    func add(_ stream: ProgramStream, for standard: Int) {
        stream.owner = self
        streams.withLock { $0[standard] = stream }
    }

    /// The stream of stdin (0), stdout (1) or stderr (2); nil if the program has no such pipe.
    func stream(_ standard: Int) -> ProgramStream? { streams.withLock { $0[standard] } }

    /// The streams that scripts can read.
    var outputs: [ProgramStream] { streams.withLock { $0.dropFirst().compactMap { $0 } } }

    /// Closes all pipes to the program.
    func closePipes() { for stream in streams.withLock({ $0 }) { stream?.close() } }
}

extension ChildProcess {
    /// Runs callbacks until `isDone`, as `LuaState.wait` does. Keeps meanwhile what the program writes to pipes, except to `own`: otherwise the
    /// program would wait, too, once a pipe is full.
    ///
    /// - Throws: also an error if the program writes more than its `captureLimit` to a pipe that no other operation reads.
    func wait(
        in state: LuaState, deadline: ContinuousClock.Instant? = nil, besides own: ProgramStream? = nil, until isDone: () -> Bool
    ) throws(CallError) {
        let operation = state.currentOperation
        let others = handle?.outputs.filter { $0 !== own } ?? []
        let inbox = state.inbox
        let readers = StreamReaders()
        wake(inbox)
        for stream in others { stream.wake(inbox) }
        own?.wake(inbox)
        state.core.engine.hold()
        defer {
            state.core.engine.release()
            own?.stopWaking(inbox)
            for stream in others { stream.stopWaking(inbox) }
            stopWaking(inbox)
            readers.forget()
        }
        var full: ProgramStream?
        // Cancelling an operation also ends the program that it has started.
        _ = try state.wait(for: self, deadline: deadline, endsWhenCancelled: !belongs(to: operation)) {
            if isDone() { return true }
            full = others.first { stream in
                if stream.keep() || stream.delivers(whileWaitingIn: state) { return false }
                // The program waits for the operation that reads.
                if let reader = stream.reader(besides: operation) {
                    readers.add(reader, waking: inbox)
                    return false
                }
                // The script expects the program to end.
                if isToEnd { stream.close() }
                return !isToEnd
            }
            return full != nil
        }
        guard let full else { return }
        end()
        throw .message(
            "\(full.name): the program wrote more than \(captureLimit) bytes that no code has read, and was ended: read them first")
    }
}

/// The operations that read streams, while another one waits for the program. Used on the thread of the waiting state.
private final class StreamReaders {
    private var all: [Operation] = []

    /// Makes the end of `operation` wake `inbox`.
    func add(_ operation: Operation, waking inbox: Inbox) {
        if all.contains(where: { $0 === operation }) { return }
        all.append(operation)
        operation.whenFinished(for: self) { inbox.wake() }
    }

    func forget() { for operation in all { operation.forgetFinishHandlers(of: self) } }
}

extension RuntimeCore {
    /// Closes the pipes of the programs that still run, when no script can use them any more. Returns whether the engine now waits for one.
    func leavePrograms() -> Bool {
        var waits = false
        for case let program as ChildProcess in programsWithPipes.all {
            program.handle?.closePipes()
            if program.holdEngine() { waits = true }
        }
        return waits
    }
}
