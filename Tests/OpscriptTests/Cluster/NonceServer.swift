import Glibc
import TestSupport

/// Asks each client to sign a nonce, and refuses the signature.
final class NonceServer: Sendable {
    private let listener: Int32
    private let greetings: [String]
    private let received = Locked<[String]>([])
    let url: String

    /// - Parameter nonces: the nonces for one connection after the other. Later connections are closed.
    init(_ nonces: [String]) throws {
        greetings = nonces.map {
            #"INFO {"server_id":"A","version":"2.9.10","proto":1,"headers":true,"auth_required":true,"nonce":"\#($0)"}"#
        }
        let (listener, port) = try TCPProxy.makeListener()
        self.listener = listener
        url = "nats://127.0.0.1:\(port)"
        startThread { [self] in serve() }
    }

    /// The first line of each connection.
    var words: [String] { received.withLock { $0 } }

    private func serve() {
        defer { close(listener) }
        for greeting in greetings {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { return }
            Self.send(greeting, to: client)
            // The reader closes the connection.
            let reader = LineReader(client)
            if let line = try? reader.line(within: nil) { received.withLock { $0.append(line) } }
            withExtendedLifetime(reader) {
                Self.send("-ERR 'Authorization Violation'", to: client)
                shutdown(client, Int32(SHUT_RDWR))
            }
        }
    }

    private static func send(_ line: String, to client: Int32) {
        let bytes = Array("\(line)\r\n".utf8)
        _ = unsafe Glibc.send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
