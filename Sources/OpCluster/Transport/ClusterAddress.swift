import Glibc

extension NatsFabric.Settings {
    private var addresses: [ClusterAddress] { url.split(separator: ",").map { ClusterAddress($0) } }

    /// Whether the URL is a URL of a server, or several with commas between.
    public var hasValidURL: Bool { !addresses.isEmpty && addresses.allSatisfy { ["nats", "tls"].contains($0.scheme) && !$0.host.isEmpty } }

    /// The URL as messages show it: without passwords.
    public var shownURL: String {
        url.split(separator: ",").map { url in
            guard let at = url.lastIndex(of: "@"), let start = url.firstRange(of: "://")?.upperBound, start < at else { return String(url) }
            return "\(url[..<start])\(url[url.index(after: at)...])"
        }.joined(separator: ",")
    }

    /// Whether the connection is encrypted, or must be.
    public var usesTLS: Bool { addresses.allSatisfy { $0.scheme == "tls" } || authorities != nil || certificate != nil }

    /// Whether the server learns who the client is.
    public var hasCredentials: Bool {
        user != nil || credentials != nil || nkeySeed != nil || certificate != nil || addresses.allSatisfy(\.hasUser)
    }

    /// Whether all servers are on this machine.
    public var isLoopback: Bool { addresses.allSatisfy(\.isLoopback) }

    /// Refuses settings with which no connection can be made, and for which libnats would not name the reason.
    ///
    /// - Throws: an error that says what is wrong.
    public func check() throws(ClusterError) {
        guard hasValidURL else {
            throw ClusterError("a cluster needs the URL of a NATS server, such as nats://host:4222, and not '\(shownURL)'")
        }
        if usesTLS, let address = addresses.first(where: \.isIPv6) {
            throw ClusterError(
                "the server's certificate cannot be checked for the IPv6 address '\(address.host)': use a name of the server")
        }
        let files = [
            ("--creds", credentials), ("--nkey", nkeySeed), ("--ca", authorities), ("--cert", certificate), ("--cert-key", privateKey),
        ]
        for case (let option, let path?) in files where unsafe access(path, R_OK) != 0 {
            throw ClusterError("the file '\(path)' (\(option)) cannot be read: \(unsafe String(cString: strerror(errno)))")
        }
    }

    /// The errors of looking up the servers' names; nil if one of them has an address.
    var unknownHosts: String? {
        var errors: [String] = []
        for host in addresses.map(\.host) {
            var found: UnsafeMutablePointer<addrinfo>?
            let status = unsafe getaddrinfo(host, nil, nil, &found)
            unsafe found.map { unsafe freeaddrinfo($0) }
            if status == 0 { return nil }
            errors.append("the address of '\(host)' cannot be found: \(unsafe String(cString: gai_strerror(status)))")
        }
        return errors.joined(separator: "; ")
    }
}

/// The parts of a server's URL.
private struct ClusterAddress {
    let scheme: String
    let hasUser: Bool
    let host: String
    let isIPv6: Bool

    init(_ url: some StringProtocol) {
        var rest = url[...]
        let start = rest.firstRange(of: "://")
        scheme = start.map { String(rest[..<$0.lowerBound]) } ?? ""
        if let start { rest = rest[start.upperBound...] }
        let at = rest.lastIndex(of: "@")
        hasUser = at != nil
        if let at { rest = rest[rest.index(after: at)...] }
        isIPv6 = rest.hasPrefix("[")
        host = String(isIPv6 ? rest.dropFirst().prefix { $0 != "]" } : rest.prefix { $0 != ":" && $0 != "/" })
    }

    /// A name such as `127.0.0.1.example.org` is no address, and may belong to any machine.
    var isLoopback: Bool {
        var address = in_addr()
        if host == "localhost" || host == "::1" { return true }
        return unsafe inet_pton(AF_INET, host, &address) == 1 && UInt32(bigEndian: address.s_addr) >> 24 == 127
    }
}
