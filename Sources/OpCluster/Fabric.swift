/// What carries the messages between the members of a cluster, and their clock. `NatsFabric` is the real one; tests and simulations have
/// others.
public protocol Fabric: AnyObject, Sendable {
    /// Seconds of a clock that does not go back.
    var now: Double { get }
    /// Whether messages reach the server now.
    var isConnected: Bool { get }
    /// The greatest number of bytes of a message.
    var maxPayload: Int { get }

    /// Publishes a message without waiting. While there is no connection, it is kept or lost: whoever needs an answer asks again.
    func publish(_ message: OutgoingMessage)
    /// Calls `body` after so many seconds, on any thread.
    func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void)
    /// Begins to receive the messages of the subjects, which may contain wildcards. Called once.
    func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError)
    /// Sends what was published, for so many seconds at most, and ends. The receiver gets nothing afterwards.
    func close(waiting seconds: Double)
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
    /// What the server says in place of a message; 0 for a message.
    public var status: Int

    /// Makes a message.
    public init(subject: String, reply: String = "", bytes: [UInt8] = [], status: Int = 0) {
        (self.subject, self.reply, self.bytes, self.status) = (subject, reply, bytes, status)
    }

    /// Nobody has subscribed to the subject of the request.
    static let noResponders = 503
}

/// Gets what a fabric receives, one call at a time.
public protocol FabricReceiver: AnyObject, Sendable {
    /// A message has come.
    func receive(_ message: IncomingMessage)
    /// The connection was lost or is there again, or something else has happened to it that `text` describes.
    func connectionHasChanged(_ text: String)
}

/// Why something about a cluster is not possible.
public struct ClusterError: Error, CustomStringConvertible, Sendable {
    /// One sentence that says what is wrong, and what to do.
    public let description: String

    /// Makes an error.
    public init(_ description: String) { self.description = description }
}
