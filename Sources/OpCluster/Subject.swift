/// The subjects of the messages. Their first parts are what a server's permissions are about; see docs/cluster.md.
///
/// Tokens have no dots, blanks or wildcards, so identifiers are in hexadecimal and names of queues are made to fit.
enum Subject {
    /// Members with another version of the messages have streams of their own.
    static let stream = "OPSCRIPT_\(Seal.version)"
    /// Everything in the stream.
    static let jobs = "opscript.job.\(Seal.version).>"
    static let hello = "opscript.hello"
    static let find = "opscript.find"
    static let beat = "opscript.beat"
    static let priorityCount = 5

    static func job(run: String, queue: String, priority: UInt8) -> String {
        "opscript.job.\(Seal.version).\(run).\(queue).\(priority)"
    }

    /// The jobs of a run.
    static func jobs(ofRun run: String) -> String { "opscript.job.\(Seal.version).\(run).>" }

    /// The jobs with a priority.
    static func jobs(withPriority priority: Int) -> String { "opscript.job.\(Seal.version).*.*.\(priority)" }

    /// What the workers say to the coordinator of a run.
    static func run(_ run: String) -> String { "opscript.run.\(run)" }

    /// What is said to one worker.
    static func worker(_ id: String) -> String { "opscript.worker.\(id)" }

    /// The answers for a member.
    static func inbox(_ id: String) -> String { "_INBOX.opscript.\(id)" }

    static func consumer(_ priority: Int) -> String { "p\(priority)" }

    /// A name as one token.
    static func token(_ name: String) -> String {
        let fitting = name.unicodeScalars.prefix(40).map { scalar in
            scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil || scalar == "-")
                ? Character(scalar) : "_"
        }
        return fitting.isEmpty ? "_" : String(fitting)
    }

    /// A new identifier.
    static func identifier() -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
