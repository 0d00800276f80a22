import Glibc
import TestSupport
import Testing

@Suite("Clients of the status page that keep their connections")
struct StatusConnectionTests {
    /// A connection from this machine.
    private final class Connection {
        let descriptor: Int32

        init(to port: Int) throws {
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(port).bigEndian
            address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
            let isConnected = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            guard isConnected else { throw CommandError(description: "connect: errno \(errno)") }
        }

        deinit { close(descriptor) }

        func send(_ text: String) { _ = unsafe Glibc.send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) }

        /// Whether the server ends the connection within so many milliseconds.
        func ends(within milliseconds: Int32) -> Bool {
            var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0), byte: UInt8 = 0
            guard unsafe poll(&event, 1, milliseconds) > 0 else { return false }
            return unsafe recv(descriptor, &byte, 1, 0) <= 0
        }
    }

    @Test("One address has at most 16 of them, so another one can still connect")
    func oneAddress() throws {
        let run = try LiveRun("print 'ready' io.read()")
        let connections = try (0..<17).map { _ in try Connection(to: run.port) }
        #expect(connections.last?.ends(within: 30_000) == true)
        #expect(try run.status("/metrics", "--interface", "127.0.0.2") == 200)
        #expect(connections.dropLast().allSatisfy { !$0.ends(within: 0) })
        withExtendedLifetime(connections) {}
        #expect(try run.finish() == 0)
    }

    @Test("A request whose headers trickle ends", .disabled(if: TestLength.isQuick, "takes ten seconds"))
    func slowHeaders() throws {
        let run = try LiveRun("print 'ready' io.read()")
        let connection = try Connection(to: run.port)
        connection.send("GET /metrics HTTP/1.1\r\nX: ")
        var count = 0
        while count < 100, !connection.ends(within: 500) {
            connection.send("x")
            count += 1
        }
        #expect(count < 100)
        #expect(try run.finish() == 0)
    }
}
