import CNats
import Glibc
import OpPlatform

/// A connection to NATS servers.
@safe
public final class NatsFabric: Fabric, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `connection` and `receiver` are set by `start`, before others use the object; the rest is locked.

    /// How to connect.
    public struct Settings: Sendable {
        /// The server's URL, such as `nats://host:4222`, or several with commas between. May contain user and password.
        public var url: String
        /// The name of the connection in the server's monitoring.
        public var name = "opscript"
        /// A user and a password.
        public var user: String?, password: String?
        /// A file of credentials, as `nsc` makes them.
        public var credentials: String?
        /// A file with the seed of a user's nkey.
        public var nkeySeed: String?
        /// A file with the certificates of authorities to trust.
        public var authorities: String?
        /// Files with a certificate and its private key, by which the server knows the client.
        public var certificate: String?, privateKey: String?

        /// Makes settings without credentials.
        public init(url: String) { self.url = url }
    }

    private let settings: Settings
    private let hasClosed = Guarded(false)
    private var connection: OpaquePointer?
    private weak var receiver: (any FabricReceiver)?
    private let timers = Timers()

    /// Makes a connection that is not open yet.
    public init(_ settings: Settings) { self.settings = settings }

    /// The reason why this process cannot connect; nil if it can.
    public static var missing: String? { unsafe cnats_missing().map { unsafe String(cString: $0) } }

    /// Seconds of the clock.
    public var now: Double {
        var now = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
    }
    /// Whether there is a connection.
    public var isConnected: Bool { unsafe connection.map { unsafe cnats_is_connected($0) } ?? false }
    /// The greatest number of bytes of a message that the server takes.
    public var maxPayload: Int { unsafe connection.map { Int(unsafe cnats_max_payload($0)) } ?? 0 }

    /// The last refusal of the server for this user; nil if none so far.
    public var denial: String? {
        guard let connection = unsafe connection else { return nil }
        var error = [CChar](repeating: 0, count: Int(CNATS_ERROR_SIZE))
        unsafe cnats_last_error(connection, &error)
        let text = String(decoding: error.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return Self.isDenial(text) ? denial(of: text) : nil
    }

    private static func isDenial(_ text: String) -> Bool { text.hasPrefix("Permissions Violation") }

    private func denial(of text: String) -> String { "the server \(settings.shownURL) refuses this user something (\(text))" }

    /// Calls `body` later.
    public func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) { timers.set(at: .now + .seconds(seconds), body) }

    /// Connects.
    public func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError) {
        self.receiver = receiver
        try settings.check()
        if let seed = settings.nkeySeed {
            var key = [CChar](repeating: 0, count: Int(CNATS_PUBLIC_KEY_SIZE))
            guard unsafe cnats_public_key(seed, &key) else {
                throw ClusterError("the file '\(seed)' (--nkey) has no seed of a user's nkey: such a seed begins with SU")
            }
        }
        let refusal = Awaited<String>()
        // A new thread receives no signals. A signal would end a wait of libnats, also on the threads that libnats starts.
        startThread { [self] in
            refusal.give(connect())
        } orElse: {
            refusal.give("the system cannot start a thread")
        }
        let text = refusal.get()
        guard let connection = unsafe connection else {
            throw ClusterError("there is no connection to the cluster's server \(settings.shownURL): \(text)")
        }
        for subject in subjects where unsafe !cnats_subscribe(connection, subject) {
            throw ClusterError("the cluster's server does not let this program subscribe to '\(subject)'")
        }
    }

    /// Connects. Returns the error if that fails.
    private func connect() -> String {
        let handlers = unsafe cnats_handlers(
            context: Unmanaged.passUnretained(self).toOpaque(),
            message: { context, message in
                guard let context = unsafe context, let message = unsafe message?.pointee else { return }
                unsafe NatsFabric.of(context).receive(message)
            },
            event: { context, event, text in
                guard let context = unsafe context else { return }
                unsafe NatsFabric.of(context).handle(event, text.map { unsafe String(cString: $0) } ?? "")
            })
        var error = [CChar](repeating: 0, count: 512)
        unsafe connection = unsafe withSettings { settings in unsafe cnats_connect(settings, handlers, &error, error.count) }
        // For a server with an unknown name, libnats only says that no server is available.
        if unsafe connection == nil, let unknown = settings.unknownHosts { return unknown }
        return String(decoding: error.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private func withSettings<Result>(_ body: (UnsafePointer<cnats_settings>) -> Result) -> Result {
        var copies: [UnsafeMutablePointer<CChar>?] = unsafe []
        func duplicate(_ text: String?) -> UnsafePointer<CChar>? {
            guard let text, let copy = unsafe strdup(text) else { return nil }
            unsafe copies.append(copy)
            return unsafe UnsafePointer(copy)
        }
        defer { while let copy = unsafe copies.popLast() { unsafe free(copy) } }
        var raw = unsafe cnats_settings()
        unsafe raw.url = duplicate(settings.url)
        unsafe raw.name = duplicate(settings.name)
        unsafe raw.user = duplicate(settings.user)
        unsafe raw.password = duplicate(settings.password)
        unsafe raw.credentials = duplicate(settings.credentials)
        unsafe raw.nkey_seed = duplicate(settings.nkeySeed)
        unsafe raw.authorities = duplicate(settings.authorities)
        unsafe raw.certificate = duplicate(settings.certificate)
        unsafe raw.private_key = duplicate(settings.privateKey)
        unsafe raw.requires_tls = settings.usesTLS
        return unsafe body(&raw)
    }

    private static func of(_ context: UnsafeMutableRawPointer) -> NatsFabric {
        // Safety: `close` waits for the handlers, and the fabric's users keep it until then.
        unsafe Unmanaged<NatsFabric>.fromOpaque(context).takeUnretainedValue()
    }

    private func receive(_ message: cnats_message) {
        let bytes = unsafe message.bytes.map { unsafe Array(UnsafeBufferPointer(start: $0, count: message.count)) } ?? []
        receiver?.receive(
            unsafe IncomingMessage(
                subject: String(cString: message.subject), reply: String(cString: message.reply), bytes: bytes, status: Int(message.status))
        )
    }

    private func handle(_ event: cnats_event, _ text: String) {
        let server = settings.shownURL
        let isClosed = hasClosed.withLock { $0 }
        switch event {
        case CNATS_DISCONNECTED where !isClosed:
            let reason = text.isEmpty ? "" : " (\(text))"
            receiver?.connectionHasChanged(.lost("the connection to \(server) was lost\(reason); connecting again"))
        case CNATS_RECONNECTED: receiver?.connectionHasChanged(.isBack("the connection to \(server) is there again"))
        case CNATS_CLOSED where !isClosed:
            receiver?.connectionHasChanged(.fault("the connection to \(server) was closed for good: \(text); start this program again"))
        case CNATS_FAULT where !isClosed && Self.isDenial(text): receiver?.connectionHasChanged(.denied(denial(of: text)))
        case CNATS_FAULT where !isClosed: receiver?.connectionHasChanged(.fault("the server \(server) says: \(text)"))
        default: break
        }
    }

    /// Publishes without waiting.
    public func publish(_ message: OutgoingMessage) {
        guard let connection = unsafe connection else { return }
        // The caller repeats a message that could not be sent.
        _ = unsafe message.bytes.withUnsafeBytes { bytes in
            unsafe cnats_publish(connection, message.subject, message.reply, message.id, bytes.baseAddress, bytes.count)
        }
    }

    /// Closes the connection.
    public func close(waiting seconds: Double) {
        timers.end()
        let isFirst = hasClosed.withLock { hasClosed in
            defer { hasClosed = true }
            return !hasClosed
        }
        guard let connection = unsafe connection, isFirst else { return }
        unsafe cnats_close(connection, isConnected ? Int64(seconds * 1000) : 0)
    }

    deinit {
        close(waiting: 0)
        // Other threads may have published until now.
        if let connection = unsafe connection { unsafe cnats_free(connection) }
    }
}
