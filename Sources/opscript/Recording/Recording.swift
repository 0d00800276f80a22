import Glibc
import LuaBindings
import OpEngine
import Synchronization

/// What the command records of a run, and the file that it writes from that.
final class Recording: OperationRecordReceiver, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the recorder's thread uses the mutable fields, until `finish` has stopped it.

    private let trace: TraceWriter
    private let file: OutputFile
    private var recorder: Recorder?
    private var lastFlush: UInt64 = 0
    private let isFinished = Atomic<Bool>(false)

    /// The address of the recording that a call of `exit` must finish; 0 if there is none.
    private static let current = Atomic<UInt>(0)

    /// Opens the file that the options ask for. Nil if they ask for none.
    static func prepare(_ options: Options) throws(RecordingError) -> Recording? {
        guard let path = options.traceFile else { return nil }
        return Recording(try OutputFile(path, for: "--trace", closing: "\n]\n"), title: options.title)
    }

    /// Begins to record.
    func begin(in runtime: Runtime) {
        recorder = Recorder(runtime.engine, receiver: self)
        if recorder == nil { Message.write("opscript: the run is not recorded: the system starts no more threads\n") }
        // Safety: the reference is never released, because `exit` may come at any time.
        unsafe Recording.current.store(UInt(bitPattern: Unmanaged.passRetained(self).toOpaque()), ordering: .releasing)
        // A script may end the process with `os.exit`.
        atexit {
            guard let pointer = unsafe UnsafeRawPointer(bitPattern: Recording.current.load(ordering: .acquiring)) else { return }
            unsafe Unmanaged<Recording>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.finish() }
        }
    }

    private init(_ file: OutputFile, title: String) {
        self.file = file
        trace = TraceWriter(file, from: Recording.now, title: "opscript \(title)")
    }

    /// Stops recording and completes the file. Further calls do nothing.
    func finish() {
        if isFinished.exchange(true, ordering: .acquiringAndReleasing) { return }
        recorder?.stop()
        trace.finish()
        guard let failure = file.failure else { return }
        Message.write("opscript: --trace: cannot write '\(file.path)': \(unsafe String(cString: strerror(failure)))\n")
    }

    // MARK: OperationRecordReceiver

    func receive(_ record: OperationRecord) { trace.receive(record) }

    func finishBatch() {
        let now = Recording.now
        if now < lastFlush + 200_000_000 { return }
        lastFlush = now
        trace.flush()
    }

    func describe(_ error: any Error) -> String { (error as? OperationFailure)?.report ?? "\(error)" }

    /// The time of the clock that records use.
    private static var now: UInt64 {
        var now = timespec()
        // Safety: `now` is a local variable that outlives the call.
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }
}
