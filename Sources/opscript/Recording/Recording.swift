import Glibc
import LuaBindings
import OpEngine
import OpPlatform
import Synchronization

/// Records a run, and writes the files that the options ask for.
final class Recording: OperationRecordReceiver, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the recorder's thread uses the mutable fields and the log, until `finish` has stopped it.

    private let log: RunLog
    private let trace: TraceWriter?
    private let traceFile: OutputFile?
    private let graph: GraphFile?
    private let reportFile: OutputFile?
    private let writer: LogWriter?
    private let status: StatusServer?
    private var recorder: Recorder?
    private var lastFlush: UInt64 = 0
    private let isFinished = Atomic<Bool>(false)

    /// The address of the recording that a call of `exit` must finish; 0 without a recording.
    private static let current = Atomic<UInt>(0)

    /// Opens the files that the options ask for. Nil if they ask for none.
    static func prepare(_ options: Options) throws(RecordingError) -> Recording? {
        if options.traceFile == nil && options.graphFile == nil && options.reportFile == nil && options.logLevel == nil
            && options.status == nil
        {
            return nil
        }
        return try Recording(options)
    }

    /// Begins to record, and to serve the status page.
    func begin(in runtime: Runtime) {
        log.workerCount = runtime.engine.workerCount
        recorder = Recorder(runtime.engine, receiver: self)
        if recorder == nil { Message.write("opscript: the run is not recorded: the system starts no more threads\n") }
        if recorder != nil, let status, !status.start(runtime.monitor) {
            Message.write("opscript: there is no status page: the system starts no more threads\n")
        }
        // Safety: the reference is never released, because any thread may call `exit` at any time.
        unsafe Recording.current.store(UInt(bitPattern: Unmanaged.passRetained(self).toOpaque()), ordering: .releasing)
        // A script may end the process with `os.exit`.
        atexit {
            // A process that the script has forked has none of the threads that record.
            guard !ForkedProcess.isCurrent,
                let pointer = unsafe UnsafeRawPointer(bitPattern: Recording.current.load(ordering: .acquiring))
            else { return }
            unsafe Unmanaged<Recording>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.finish() }
        }
    }

    private init(_ options: Options) throws(RecordingError) {
        var traceFile: OutputFile?
        if let path = options.traceFile { traceFile = try OutputFile(path, for: "--trace", closing: "\n]\n") }
        graph = if let path = options.graphFile { try GraphFile(path) } else { nil }
        var reportFile: OutputFile?
        if let path = options.reportFile { reportFile = try OutputFile(path, for: "--report") }
        self.reportFile = reportFile
        let start = Recording.now
        self.traceFile = traceFile
        trace = traceFile.map { TraceWriter($0, title: "opscript \(options.title)") }
        writer = options.logLevel.map { LogWriter($0) }
        // The graph and the report are written at the end and need the whole run.
        log = RunLog(
            title: options.title, from: start, keepsAll: graph != nil || reportFile != nil,
            observers: ([trace, writer] as [(any RunObserver)?]).compactMap { $0 })
        status = if let address = options.status { try StatusServer(address) } else { nil }
    }

    /// Stops recording and completes the files. Further calls do nothing.
    func finish() {
        if isFinished.exchange(true, ordering: .acquiringAndReleasing) { return }
        recorder?.stop()
        if let status, recorder != nil {
            pass(to: status, isLast: true)
            status.finish()
        }
        log.finish()
        trace?.finish(log)
        reportFailure(of: traceFile, for: "--trace")
        for line in graph?.finish(log) ?? [] { Message.write("opscript: \(line)\n") }
        guard let reportFile else { return }
        ReportPage.write(RunData(log: log, file: reportFile))
        reportFile.close()
        reportFailure(of: reportFile, for: "--report")
    }

    private func pass(to status: StatusServer, isLast: Bool) {
        status.pass(log.latest(at: Recording.now), isLast: isLast)
    }

    private func reportFailure(of file: OutputFile?, for option: String) {
        guard let file, let failure = file.failure else { return }
        Message.write("opscript: \(option): cannot write '\(file.path)': \(unsafe String(cString: strerror(failure)))\n")
    }

    // MARK: OperationRecordReceiver

    func receive(_ record: OperationRecord) { log.receive(record) }

    func finishBatch() {
        writer?.flush(log)
        log.forget()
        if let status, status.isAsked { pass(to: status, isLast: false) }
        let now = Recording.now
        if now < lastFlush + 200_000_000 { return }
        lastFlush = now
        trace?.flush()
    }

    func describe(_ error: any Error) -> String { (error as? OperationFailure)?.report ?? "\(error)" }

    /// The time of the clock that records use.
    static var now: UInt64 {
        var now = timespec()
        // Safety: `now` is a local variable that outlives the call.
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }
}
