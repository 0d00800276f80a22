import Glibc

/// Where a member listens for those that connect past the server.
struct DirectPlace: Hashable, Sendable {
    static let tokenCount = 32

    /// A numeric address.
    let address: String
    let port: Int
    /// What nobody knows whom the member has not told it.
    let token: [UInt8]
    /// The machine, whose loopback is no other's.
    let machine: String

    var isLoopback: Bool { address.hasPrefix("127.") || address == "::1" }

    /// Whether this machine can reach the place, and may.
    ///
    /// - Parameter hasKey: whether what is sent can be sealed.
    func isUsable(hasKey: Bool) -> Bool { isLoopback ? !machine.isEmpty && machine == Self.thisMachine : hasKey }

    /// What differs from the same of every other machine and container.
    static let thisMachine: String = {
        var contents = [UInt8](repeating: 0, count: 256)
        let descriptor = unsafe open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { Glibc.close(descriptor) }
        let bootCount = unsafe read(descriptor, &contents, 36)
        let boot = String(decoding: contents.prefix(max(bootCount, 0)), as: UTF8.self)
        // Containers of one machine have networks of their own.
        let networkCount = unsafe contents.withUnsafeMutableBytes { bytes in
            unsafe readlink("/proc/self/ns/net", bytes.baseAddress!.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        return networkCount > 0 && bootCount > 0 ? "\(boot) \(String(decoding: contents.prefix(networkCount), as: UTF8.self))" : ""
    }()

    /// Calls `body` with the address as the system has it. Returns nil if it is none.
    static func withSocketAddress<Result>(
        _ address: String, port: Int, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        guard let port = UInt16(exactly: port) else { return nil }
        var v4 = sockaddr_in()
        if unsafe inet_pton(AF_INET, address, &v4.sin_addr) == 1 {
            (v4.sin_family, v4.sin_port) = (sa_family_t(AF_INET), port.bigEndian)
            return unsafe withUnsafeBytes(of: &v4) { bytes in
                unsafe body(AF_INET, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            }
        }
        var v6 = sockaddr_in6()
        guard unsafe inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 else { return nil }
        (v6.sin6_family, v6.sin6_port) = (sa_family_t(AF_INET6), port.bigEndian)
        return unsafe withUnsafeBytes(of: &v6) { bytes in
            unsafe body(AF_INET6, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
    }
}
