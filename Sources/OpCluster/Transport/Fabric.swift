/// A network that carries the messages of a member, and its clock. `NatsFabric` is the real one; tests and simulations have others.
public protocol Fabric: AnyObject, Sendable {
    /// Seconds of a clock that does not go back.
    var now: Double { get }
    /// Whether messages reach the server now.
    var isConnected: Bool { get }
    /// The greatest number of bytes of a message.
    var maxPayload: Int { get }
    /// The last refusal of the server for this user; nil if none so far. A refused subscription is known before the answer to any later message.
    var denial: String? { get }
    /// A number that cannot be guessed, except in tests.
    func randomNumber() -> UInt64

    /// Publishes a message without waiting. Without a connection, the message is kept or lost: a caller that needs an answer repeats it.
    func publish(_ message: OutgoingMessage)
    /// Calls `body` after so many seconds, on a thread of its own.
    func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void)
    /// Begins to receive the messages of the subjects, which may contain wildcards. Called once.
    func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError)
    /// Sends what was published, for so many seconds at most, and ends. The receiver gets nothing afterwards.
    func close(waiting seconds: Double)
}

extension Fabric {
    /// Nothing.
    public var denial: String? { nil }
    /// A number that cannot be guessed.
    public func randomNumber() -> UInt64 { .random(in: .min ... .max) }
}

/// A change of a connection, in words for a person.
public enum ConnectionChange: Sendable {
    /// It was lost, and is made again.
    case lost(String)
    /// It was made again. The server has forgotten this member's pulls.
    case isBack(String)
    /// Something went wrong, and the connection is as it was.
    case fault(String)
    /// The server does not allow this member something that it needs.
    case denied(String)

    /// The words.
    public var text: String {
        switch self {
        case .lost(let text), .isBack(let text), .fault(let text), .denied(let text): text
        }
    }
}

/// A message to publish.
public struct OutgoingMessage: Sendable {
    /// The subject.
    public var subject: String
    /// The subject of the answer; nil if none is wanted.
    public var reply: String?
    /// By which a stream recognizes a message that comes twice.
    public var id: String?
    /// The contents.
    public var bytes: [UInt8]
}

/// A message that has come.
public struct IncomingMessage: Sendable {
    /// The subject.
    public var subject: String
    /// The subject of the answer; empty if none is wanted.
    public var reply: String
    /// The contents.
    public var bytes: [UInt8]
    /// The server's status in place of a message; 0 for a message.
    public var status: Int

    /// Makes a message.
    public init(subject: String, reply: String = "", bytes: [UInt8] = [], status: Int = 0) {
        (self.subject, self.reply, self.bytes, self.status) = (subject, reply, bytes, status)
    }

    /// The subject of the request has no subscriber.
    static let noResponders = 503
    /// The time of a pull is over.
    static let pullIsOver = 408
}

/// Gets what a fabric receives, one call at a time.
public protocol FabricReceiver: AnyObject, Sendable {
    /// A message has come.
    func receive(_ message: IncomingMessage)
    /// Something has happened to the connection. Comes on any thread.
    func connectionHasChanged(_ change: ConnectionChange)
}

/// Why something about a cluster is not possible.
public struct ClusterError: Error, CustomStringConvertible, Sendable {
    /// One sentence that says what is wrong, and what to do.
    public let description: String

    /// Makes an error.
    public init(_ description: String) { self.description = description }
}
