/// A network that carries the messages of a member, and its clock. `NatsFabric` is the real one; tests and simulations have others.
public protocol Fabric: AnyObject, Sendable {
    /// Seconds of a clock that does not go back.
    var now: Double { get }
    /// Whether messages reach the server now.
    var isConnected: Bool { get }
    /// The greatest number of bytes of a message.
    var maxPayload: Int { get }
    /// The server's last refusal of something that this user needs; nil if none so far. The refusal of a subscription is known before the answer to
    /// any later message.
    var denial: String? { get }
    /// A number that cannot be guessed, except in tests.
    func randomNumber() -> UInt64

    /// Publishes a message without waiting. Without a connection, the message is kept or lost: a caller that needs an answer repeats it.
    func publish(_ message: OutgoingMessage)
    /// Calls `body` after so many seconds, on a thread of the fabric.
    func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void)
    /// Begins to receive the messages of the subjects, which may contain wildcards. Called once.
    func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError)
    /// Sends the messages that were published, for so many seconds at most, and disconnects. The receiver gets nothing afterwards.
    func close(waiting seconds: Double)
}

extension Fabric {
    /// Nil: the fabric refuses nothing.
    public var denial: String? { nil }
    /// A number that cannot be guessed.
    public func randomNumber() -> UInt64 { .random(in: .min ... .max) }
}

/// A change of a connection, in words for a person.
public enum ConnectionChange: Sendable {
    /// The connection was lost. The fabric connects again.
    case lost(String)
    /// The fabric has connected again. The server has forgotten this member's pulls.
    case isBack(String)
    /// Something went wrong. The connection is as it was.
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
    /// The name by which a stream recognizes a message that arrives twice.
    public var id: String?
    /// The contents.
    public var bytes: [UInt8]
}

/// A message that has arrived.
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

/// Gets the messages that a fabric receives, one at a time.
public protocol FabricReceiver: AnyObject, Sendable {
    /// A message has arrived.
    func receive(_ message: IncomingMessage)
    /// Something has happened to the connection. Called on any thread.
    func connectionHasChanged(_ change: ConnectionChange)
}

/// The reason why something about a cluster is not possible.
public struct ClusterError: Error, CustomStringConvertible, Sendable {
    /// One sentence that says what is wrong, and what to do.
    public let description: String

    /// Makes an error.
    public init(_ description: String) { self.description = description }
}
