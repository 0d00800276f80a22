/// The subjects of the messages. The permissions of a server name their first parts; see `examples/cluster/nats-server.conf`.
///
/// Tokens have no dots, blanks or wildcards, so identifiers are in hexadecimal, and `token` replaces other characters of a queue's name.
enum Subject {
    static let hello = "opscript.hello"
    static let find = "opscript.find"
    static let beat = "opscript.beat"
    static let priorityCount = 5
    static let jobPrefix = "opscript.job."

    /// From workers to the coordinator of a run.
    static func run(_ run: String) -> String { "opscript.run.\(run)" }

    /// From coordinators to one worker.
    static func worker(_ id: String) -> String { "opscript.worker.\(id)" }

    /// From the coordinator of a run to a worker, in the worker's session of that run.
    static func session(_ session: UInt64, ofWorker id: String) -> String { "\(worker(id)).\(session)" }

    /// The answers for a member.
    static func inbox(_ id: String) -> String { "_INBOX.opscript.\(id)" }

    /// A name as one token.
    static func token(_ name: String) -> String {
        let fitting = name.unicodeScalars.prefix(40).map { scalar in
            scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil || scalar == "-")
                ? Character(scalar) : "_"
        }
        return fitting.isEmpty ? "_" : String(fitting)
    }

    /// Sixteen hexadecimal digits.
    static func identifier(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// The stream of jobs of the members with the same key and version, and its subjects. Other members could not run these jobs, and get none.
struct JobSpace: Sendable {
    private let token: String

    init(_ seal: Seal, version: String) { token = seal.fingerprint(of: "opscript \(Seal.version) \(version)") }

    var stream: String { "OPSCRIPT_\(token)" }
    /// Everything in the stream.
    var jobs: String { "opscript.job.\(token).>" }

    func job(run: String, queue: String, priority: UInt8) -> String { "opscript.job.\(token).\(run).\(queue).\(priority)" }

    /// The jobs of a run.
    func jobs(ofRun run: String) -> String { "opscript.job.\(token).\(run).>" }

    /// The jobs with a priority.
    func jobs(withPriority priority: Int) -> String { "opscript.job.\(token).*.*.\(priority)" }

    static func consumer(_ priority: Int) -> String { "p\(priority)" }
}
