/// How a running body is to end.
public enum StopRequest: UInt8, Sendable {
    /// The operation was cancelled. The body continues until it checks whether it is cancelled.
    case cancel
    /// The body ends at once, as an interrupted one.
    case interrupt
    /// The outcome is not needed: another worker has finished the task, or its run has ended.
    case drop
}

/// A task as it is published.
struct Job: Sendable {
    var run: String
    var number: UInt64
    /// Counts the publications of the task from 0. If the server refuses one, its repetition has the same number.
    var attempt: UInt64
    /// 0 is the lowest priority, and 4 the highest.
    var priority: UInt8
    /// Whether a worker must ask before it begins.
    var isAtMostOnce: Bool
    var payload: Payload
}

/// The contents of a task or of its outcome.
public struct Payload: Sendable {
    /// The part that fits a message.
    public var bytes: [UInt8]
    /// The names of the other parts. A receiver fetches these before it uses the payload.
    public var blobs: [BlobName]
    /// The other parts themselves, as far as this process has their bytes.
    public var contents: [Blob]

    /// Makes a payload of bytes and blobs that this process has.
    public init(bytes: [UInt8], contents: [Blob] = []) {
        (self.bytes, self.contents) = (bytes, contents)
        blobs = contents.map(\.name)
    }

    /// The number of bytes that the payload has in a message, or somewhat more.
    var mostBytes: Int { bytes.count + 40 * blobs.count }

    fileprivate init(bytes: [UInt8], blobs: [BlobName]) { (self.bytes, self.blobs, contents) = (bytes, blobs, []) }
}

/// A worker's news about the tasks of one run, in order. The worker sends a report again until the coordinator has confirmed it.
struct Report: Sendable {
    enum Entry: Sendable {
        /// The worker has the task, and wants to begin with it. The stream learns from messages to the subject `acknowledgement` what becomes of the
        /// job.
        case taken(acknowledgement: String)
        /// A body has written to stdout (1) or stderr (2).
        case output(stream: UInt8, [UInt8])
        case outcome(Payload, began: Double, ended: Double)
        /// The worker will not run the task, and has not begun to. `isBusy` is true if the only reason is that other bodies of the worker take long.
        case declined(isBusy: Bool)
    }

    var worker: String
    /// Grows each time that the worker begins with the run. A worker drops all tasks of the run before it begins again.
    var session: UInt64
    /// Counts from 1 in each session.
    var sequence: UInt64
    var entries: [(number: UInt64, attempt: UInt64, entry: Entry)]
    /// The worker's clock when it sent the report.
    var sentAt: Double
}

/// Names an attempt of a task of a run.
struct TaskAttempt: Hashable, Sendable {
    let number: UInt64
    let attempt: UInt64
}

/// A worker's description of itself.
public struct WorkerDescription: Sendable, Equatable {
    /// Unique among the processes of all workers.
    public var id: String
    /// The operator's name for it.
    public var name: String
    /// The machine.
    public var host: String
    /// The process identifier on that machine.
    public var process: Int
    /// The version of opscript.
    public var version: String
    /// The number of tasks that it runs at once. 0 if it takes no more.
    public var slots: Int
    /// The number of tasks that it has now.
    public var taskCount: Int
    /// The number of tasks that it has ended.
    public var endedCount: Int
    /// The machine's load, as `uptime` gives it for one minute.
    public var load: Double
    /// When the worker sent the description, in seconds of its clock.
    public var sentAt: Double

    /// The worker in messages and reports: `w1 on host`, or only its name if that begins with the host, as in `host-42`.
    public var label: String { host.isEmpty || name.hasPrefix(host) ? name : "\(name) on \(host)" }

    /// No worker has more slots.
    public static let mostSlots = 1000

    /// Describes a worker that has not started. `ClusterWorker` adds the rest.
    public init(name: String, host: String, process: Int = 0, version: String) {
        self.init(
            id: "", name: name, host: host, process: process, version: version, slots: 0, taskCount: 0, endedCount: 0, load: 0,
            sentAt: 0)
    }

    init(
        id: String, name: String, host: String, process: Int, version: String, slots: Int, taskCount: Int, endedCount: Int, load: Double,
        sentAt: Double
    ) {
        (self.id, self.name, self.host, self.process, self.version) = (id, name, host, process, version)
        (self.slots, self.taskCount, self.endedCount, self.load) = (slots, taskCount, endedCount, load)
        self.sentAt = sentAt
    }
}

/// Every message that the members of a cluster send each other. docs/cluster-protocol.md has a table of them.
enum Message: Sendable {
    case job(Job)
    case report(Report)
    /// The coordinator has applied this report and all earlier ones of the session. The worker may begin with the tasks that the report names as
    /// taken, except the refused ones: other workers have those, or they have ended. Tasks that an earlier report names as taken need the
    /// confirmation of that report.
    case confirm(UInt64, refused: [TaskAttempt])
    case stop(run: String, number: UInt64, attempt: UInt64, StopRequest)
    /// The coordinator does not need the blobs of this outcome any more.
    case release(run: String, number: UInt64, attempt: UInt64)
    /// Asks a worker for a sign of life, and for its session of the run.
    case ping(run: String)
    case pong(session: UInt64)
    case find
    case hello(WorkerDescription)
    /// The coordinator of a run lives. The counter grows, so that receivers recognize an old message.
    case beat(run: String, UInt64, isLast: Bool)
    /// Asks whether the coordinator lives now.
    case greet(run: String)
    /// Asks for permission to begin with a task that must not run twice. Each body asks with a reply subject of its own.
    case claim(run: String, number: UInt64, attempt: UInt64, worker: String, session: UInt64)
    case claimed(Bool)
    case want(BlobName, offset: Int, count: Int)
    case piece(offset: Int, [UInt8])
    case missing
    /// A question of the layer above. This layer does not know what it means.
    case ask(run: String, [UInt8])
    case answer([UInt8])
    /// Asks a worker to report again which tasks of a run it has.
    case recount(run: String)
    /// The receiver has got a stop, a release, a recount or a greeting.
    case done

    private var kind: UInt8 {
        switch self {
        case .job: 1
        case .report: 2
        case .confirm: 3
        case .stop: 4
        case .release: 5
        case .ping: 6
        case .pong: 7
        case .find: 8
        case .hello: 9
        case .beat: 10
        case .greet: 11
        case .claim: 13
        case .claimed: 14
        case .want: 15
        case .piece: 16
        case .missing: 17
        case .ask: 18
        case .answer: 19
        case .recount: 20
        case .done: 21
        }
    }

    // MARK: writing

    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.byte(kind)
        switch self {
        case .job(let job): Self.write(job, to: &writer)
        case .report(let report): Self.write(report, to: &writer)
        case .confirm(let sequence, let refused):
            writer.number(sequence)
            writer.list(refused) { writer, task in
                writer.number(task.number)
                writer.number(task.attempt)
            }
        case .stop(let run, let number, let attempt, let request):
            writer.text(run)
            writer.number(number)
            writer.number(attempt)
            writer.byte(request.rawValue)
        case .release(let run, let number, let attempt):
            writer.text(run)
            writer.number(number)
            writer.number(attempt)
        case .ping(let run), .recount(let run), .greet(let run): writer.text(run)
        case .pong(let session): writer.number(session)
        case .find, .missing, .done: break
        case .hello(let worker): Self.write(worker, to: &writer)
        case .beat(let run, let count, let isLast):
            writer.text(run)
            writer.number(count)
            writer.byte(isLast ? 1 : 0)
        case .claim(let run, let number, let attempt, let worker, let session):
            writer.text(run)
            writer.number(number)
            writer.number(attempt)
            writer.text(worker)
            writer.number(session)
        case .claimed(let isGranted): writer.byte(isGranted ? 1 : 0)
        case .want(let name, let offset, let count):
            Self.write(name, to: &writer)
            writer.number(offset)
            writer.number(count)
        case .piece(let offset, let bytes):
            writer.number(offset)
            writer.raw(bytes)
        case .ask(let run, let bytes):
            writer.text(run)
            writer.raw(bytes)
        case .answer(let bytes): writer.raw(bytes)
        }
        return writer.bytes
    }

    private static func write(_ name: BlobName, to writer: inout ByteWriter) {
        writer.raw(name.digest)
        writer.number(name.count)
    }

    private static func write(_ payload: Payload, to writer: inout ByteWriter) {
        writer.list(payload.blobs) { write($1, to: &$0) }
        writer.counted(payload.bytes)
    }

    private static func write(_ job: Job, to writer: inout ByteWriter) {
        writer.text(job.run)
        writer.number(job.number)
        writer.number(job.attempt)
        writer.byte(job.priority)
        writer.byte(job.isAtMostOnce ? 1 : 0)
        write(job.payload, to: &writer)
    }

    private static func write(_ report: Report, to writer: inout ByteWriter) {
        writer.text(report.worker)
        writer.number(report.session)
        writer.number(report.sequence)
        writer.seconds(report.sentAt)
        writer.list(report.entries) { writer, entry in
            writer.number(entry.number)
            writer.number(entry.attempt)
            switch entry.entry {
            case .taken(let acknowledgement):
                writer.byte(1)
                writer.text(acknowledgement)
            case .output(let stream, let bytes):
                writer.byte(2)
                writer.byte(stream)
                writer.counted(bytes)
            case .outcome(let payload, let began, let ended):
                writer.byte(3)
                write(payload, to: &writer)
                writer.seconds(began)
                writer.seconds(ended)
            case .declined(let isBusy): writer.byte(isBusy ? 5 : 4)
            }
        }
    }

    private static func write(_ worker: WorkerDescription, to writer: inout ByteWriter) {
        for text in [worker.id, worker.name, worker.host, worker.version] { writer.text(text) }
        for number in [worker.process, worker.slots, worker.taskCount, worker.endedCount] { writer.number(number) }
        writer.seconds(worker.load)
        writer.seconds(worker.sentAt)
    }
}

// MARK: reading

extension Message {
    init(_ bytes: ArraySlice<UInt8>) throws(MalformedMessage) {
        var reader = ByteReader(bytes)
        switch try reader.byte() {
        case 1: self = .job(try Self.job(&reader))
        case 2: self = .report(try Self.report(&reader))
        case 3:
            self = .confirm(
                try reader.number(),
                refused: try reader.list { reader throws(MalformedMessage) in
                    TaskAttempt(number: try reader.number(), attempt: try reader.number())
                })
        case 4:
            let (run, number, attempt) = (try reader.text(), try reader.number(), try reader.number())
            guard let request = StopRequest(rawValue: try reader.byte()) else { throw MalformedMessage() }
            self = .stop(run: run, number: number, attempt: attempt, request)
        case 5:
            self = .release(run: try reader.text(), number: try reader.number(), attempt: try reader.number())
        case 6: self = .ping(run: try reader.text())
        case 7: self = .pong(session: try reader.number())
        case 8: self = .find
        case 9: self = .hello(try Self.worker(&reader))
        case 10: self = .beat(run: try reader.text(), try reader.number(), isLast: try reader.byte() != 0)
        case 11: self = .greet(run: try reader.text())
        case 13:
            self = .claim(
                run: try reader.text(), number: try reader.number(), attempt: try reader.number(), worker: try reader.text(),
                session: try reader.number())
        case 14: self = .claimed(try reader.byte() != 0)
        case 15: self = .want(try Self.name(&reader), offset: try reader.count(), count: try reader.count())
        case 16: self = .piece(offset: try reader.count(), try Self.remainder(&reader))
        case 17: self = .missing
        case 18: self = .ask(run: try reader.text(), try Self.remainder(&reader))
        case 19: self = .answer(try Self.remainder(&reader))
        case 20: self = .recount(run: try reader.text())
        case 21: self = .done
        default: throw MalformedMessage()
        }
    }

    private static func remainder(_ reader: inout ByteReader) throws(MalformedMessage) -> [UInt8] { Array(try reader.remainder()) }

    private static func name(_ reader: inout ByteReader) throws(MalformedMessage) -> BlobName {
        BlobName(digest: Array(try reader.raw(BlobName.digestCount)), count: try reader.count())
    }

    private static func payload(_ reader: inout ByteReader) throws(MalformedMessage) -> Payload {
        let blobs = try reader.list { reader throws(MalformedMessage) in try name(&reader) }
        return Payload(bytes: Array(try reader.counted()), blobs: blobs)
    }

    private static func job(_ reader: inout ByteReader) throws(MalformedMessage) -> Job {
        Job(
            run: try reader.text(), number: try reader.number(), attempt: try reader.number(), priority: try reader.byte(),
            isAtMostOnce: try reader.byte() != 0, payload: try payload(&reader))
    }

    private static func report(_ reader: inout ByteReader) throws(MalformedMessage) -> Report {
        let (worker, session) = (try reader.text(), try reader.number())
        let (sequence, sentAt) = (try reader.number(), try reader.seconds())
        let entries = try reader.list { reader throws(MalformedMessage) in
            let (number, attempt) = (try reader.number(), try reader.number())
            let entry: Report.Entry
            switch try reader.byte() {
            case 1: entry = .taken(acknowledgement: try reader.text())
            case 2: entry = .output(stream: try reader.byte(), Array(try reader.counted()))
            case 3: entry = .outcome(try payload(&reader), began: try reader.seconds(), ended: try reader.seconds())
            case 4: entry = .declined(isBusy: false)
            case 5: entry = .declined(isBusy: true)
            default: throw MalformedMessage()
            }
            return (number: number, attempt: attempt, entry: entry)
        }
        return Report(
            worker: worker, session: session, sequence: sequence, entries: entries, sentAt: sentAt)
    }

    private static func worker(_ reader: inout ByteReader) throws(MalformedMessage) -> WorkerDescription {
        let (id, name, host) = (try reader.text(), try reader.text(), try reader.text())
        let version = try reader.text()
        let worker = WorkerDescription(
            id: id, name: name, host: host, process: try reader.count(), version: version, slots: try reader.count(),
            taskCount: try reader.count(), endedCount: try reader.count(), load: try reader.seconds(),
            sentAt: try reader.seconds())
        guard worker.slots <= WorkerDescription.mostSlots else { throw MalformedMessage() }
        return worker
    }
}
