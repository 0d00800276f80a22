import CHTTP

/// The numeric address and the port at which the status page is served.
struct StatusAddress {
    let host: String
    /// 0 for a free port.
    let port: Int

    /// Parses `PORT`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. Nil for another text.
    init?(_ text: String) {
        let (host, port) = StatusAddress.split(text) ?? ("127.0.0.1", text)
        guard !port.isEmpty, port.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }), let number = UInt16(port) else {
            return nil
        }
        self.host = host == "localhost" ? "127.0.0.1" : host
        self.port = Int(number)
        guard unsafe ch_is_address(self.host) else { return nil }
    }

    /// The parts of `HOST:PORT`, the host without brackets. Nil without a port.
    static func split(_ text: String) -> (host: String, port: String)? {
        guard let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else { return nil }
        let host = text[..<colon]
        let port = String(text[colon...].dropFirst())
        if host.hasPrefix("["), host.hasSuffix("]") { return (String(host.dropFirst().dropLast()), port) }
        return host.utf8.contains(UInt8(ascii: ":")) ? nil : (String(host), port)
    }

    /// Whether only programs on this machine can connect.
    var isLoopback: Bool { unsafe ch_is_loopback(host) }

    /// The address of a page.
    static func url(host: String, port: Int, token: String) -> String {
        "http://\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)/?token=\(token)"
    }

    /// Whether a request was sent to an address and not to a name. A foreign page whose name now resolves to this machine (DNS rebinding) sends
    /// that name.
    static func isHarmless(hostHeader: String) -> Bool {
        var host = split(hostHeader)?.host ?? hostHeader
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        return host.lowercased() == "localhost" || (unsafe ch_is_address(host))
    }
}
