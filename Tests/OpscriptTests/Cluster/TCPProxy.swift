import Glibc
import OpPlatform
import TestSupport

/// Stands between programs and a server, as the network does, and fails when a test wants it to.
final class TCPProxy: Sendable {
    private struct State {
        var isCut = false
        /// Gets a value when `heal` ends a freeze; nil without one.
        var thaw: Awaited<Bool>?
        var connections: [ObjectIdentifier: Connection] = [:]
        var isClosed = false
    }

    private final class Connection: Sendable {
        let ends: [Int32]

        init(_ ends: [Int32]) { self.ends = ends }
        deinit { for end in ends { close(end) } }
        func end() { for end in ends { shutdown(end, Int32(SHUT_RDWR)) } }
    }

    /// The port to which the programs connect.
    let port: Int
    private let server: Int
    private let listener: Int32
    private let state = Locked(State())

    /// - Parameter server: the port of the server on this machine.
    init(to server: Int) throws {
        self.server = server
        (listener, port) = try Self.makeListener()
        TestSupport.startThread { [state, listener] in Self.accept(from: listener, to: server, state) }
    }

    deinit {
        let (connections, thaw) = state.withLock { state in
            state.isClosed = true
            return (Array(state.connections.values), state.thaw)
        }
        thaw?.give(true)
        for connection in connections { connection.end() }
        // The accepting thread closes the listener.
        shutdown(listener, Int32(SHUT_RDWR))
    }

    var url: String { "nats://127.0.0.1:\(port)" }

    var connectionCount: Int { state.withLock { $0.connections.count } }

    // MARK: failures

    /// Closes all connections, and accepts none, until `heal`.
    func cut() {
        let connections = state.withLock { state in
            state.isCut = true
            return Array(state.connections.values)
        }
        for connection in connections { connection.end() }
    }

    /// Passes nothing on, and closes nothing, until `heal`.
    func freeze() { state.withLock { if $0.thaw == nil { $0.thaw = Awaited() } } }

    func heal() {
        let thaw = state.withLock { state in
            state.isCut = false
            return exchange(&state.thaw, with: nil)
        }
        thaw?.give(true)
    }

    // MARK: sockets

    /// A socket that listens at a free port of this machine.
    static func makeListener() throws -> (descriptor: Int32, port: Int) {
        let listener = try makeSocket()
        var address = address(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = unsafe withUnsafeMutablePointer(to: &address) { address in
            unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe bind(listener, address, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, address, &length) == 0
            }
        }
        guard isBound else { throw CommandError(description: "no port for a server: errno \(errno)") }
        return (listener, Int(UInt16(bigEndian: address.sin_port)))
    }

    private static func makeSocket() throws -> Int32 {
        let made = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard made >= 0 else { throw CommandError(description: "socket: errno \(errno)") }
        return made
    }

    private static func address(port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return address
    }

    private static func accept(from listener: Int32, to server: Int, _ state: Locked<State>) {
        defer { close(listener) }
        while true {
            let client = Glibc.accept(listener, nil, nil)
            if state.withLock({ $0.isClosed }) || client < 0 && errno != EINTR && errno != ECONNABORTED {
                if client >= 0 { close(client) }
                return
            }
            guard client >= 0 else { continue }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            guard let end = state.withLock({ $0.isCut }) ? nil : connect(to: server) else {
                close(client)
                continue
            }
            let connection = Connection([client, end])
            state.withLock { $0.connections[ObjectIdentifier(connection)] = connection }
            TestSupport.startThread { pump(connection, from: 0, state) }
            TestSupport.startThread { pump(connection, from: 1, state) }
        }
    }

    private static func connect(to port: Int) -> Int32? {
        guard let made = try? makeSocket() else { return nil }
        var address = address(port: port)
        let isConnected = unsafe withUnsafePointer(to: &address) { address in
            unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe Glibc.connect(made, address, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        if isConnected { return made }
        close(made)
        return nil
    }

    /// Passes on the bytes from one end of a connection.
    private static func pump(_ connection: Connection, from index: Int, _ state: Locked<State>) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        passing: while true {
            let count = unsafe recv(connection.ends[index], &buffer, buffer.count, 0)
            if count <= 0 { break }
            while let thaw = state.withLock({ $0.thaw }) { _ = thaw.get() }
            var sent = 0
            while sent < count {
                let rest = unsafe buffer.withUnsafeBytes { bytes in
                    unsafe send(connection.ends[1 - index], bytes.baseAddress?.advanced(by: sent), count - sent, Int32(MSG_NOSIGNAL))
                }
                if rest <= 0 { break passing }
                sent += rest
            }
        }
        connection.end()
        _ = state.withLock { $0.connections.removeValue(forKey: ObjectIdentifier(connection)) }
    }
}
