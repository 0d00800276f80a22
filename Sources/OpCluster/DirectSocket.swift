import CNats
import Glibc

/// A TCP socket whose calls wait, but not for long: a peer that does nothing is given up.
///
/// - Concurrency: one thread sends and one receives at a time; `end` is for every thread.
final class DirectSocket: Sendable {
    let descriptor: Int32
    /// Seconds that a call may take, about.
    private let patience: Double

    /// Takes over a descriptor.
    init(_ descriptor: Int32, patience: Double) {
        (self.descriptor, self.patience) = (descriptor, patience)
        var time = timeval(tv_sec: Int(patience), tv_usec: Int((patience - patience.rounded(.down)) * 1e6))
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            unsafe setsockopt(descriptor, SOL_SOCKET, option, &time, socklen_t(MemoryLayout<timeval>.size))
        }
        // What precedes a blob is short, and is waited for.
        var yes: Int32 = 1
        unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit {
        // A child process that does not run its program yet has a copy of the descriptor.
        end()
        Glibc.close(descriptor)
    }

    /// Ends the connection. Calls that wait fail.
    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    private static func make(_ family: Int32) -> Int32 { socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0) }

    // MARK: connecting

    /// Connects; nil if that fails, or takes longer than `seconds`.
    static func connected(to place: DirectPlace, within seconds: Double, patience: Double) -> DirectSocket? {
        unsafe DirectPlace.withSocketAddress(place.address, port: place.port) { family, address, count -> DirectSocket? in
            let descriptor = make(family)
            guard descriptor >= 0 else { return nil }
            let socket = DirectSocket(descriptor, patience: patience)
            // On the loopback, much at once saves waiting and waking: a third of the time. Elsewhere the system finds out what the way needs.
            var room: Int32 = 4 << 20
            if place.isLoopback { unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<Int32>.size)) }
            let flags = fcntl(descriptor, F_GETFL)
            _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
            if unsafe connect(descriptor, address, count) != 0 {
                guard errno == EINPROGRESS else { return nil }
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                var error: Int32 = 0, length = socklen_t(MemoryLayout<Int32>.size)
                guard unsafe Glibc.poll(&poll, 1, Int32(seconds * 1000)) == 1,
                    unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0, error == 0
                else { return nil }
            }
            _ = fcntl(descriptor, F_SETFL, flags)
            return socket
        } ?? nil
    }

    // MARK: listening

    /// Listens at a free port of an address; nil if that fails.
    static func listening(at address: String) -> (socket: DirectSocket, port: Int)? {
        unsafe DirectPlace.withSocketAddress(address, port: 0) { family, address, count -> (DirectSocket, Int)? in
            let descriptor = make(family)
            guard descriptor >= 0 else { return nil }
            let socket = DirectSocket(descriptor, patience: 0)
            var bound = sockaddr_storage(), length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let isBound =
                unsafe bind(descriptor, address, count) == 0 && listen(descriptor, 64) == 0
                && withUnsafeMutablePointer(to: &bound) { bound in
                    unsafe bound.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe getsockname(descriptor, $0, &length) } == 0
                }
            // The port is at the same place in the addresses of both families.
            let port = unsafe withUnsafeBytes(of: &bound) { unsafe UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) }
            return isBound ? (socket, Int(port)) : nil
        } ?? nil
    }

    /// Waits for the next connection; nil if the socket was ended.
    func accept(patience: Double) -> DirectSocket? {
        while true {
            let accepted = cnats_accept(descriptor)
            if accepted >= 0 { return DirectSocket(accepted, patience: patience) }
            switch errno {
            case EINVAL, EBADF: return nil
            // There may be room again soon.
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: _ = poll(nil, 0, 100)
            default: break
            }
        }
    }

    // MARK: bytes

    /// From now on, waits for as long as the peer is there: a peer that does not acknowledge what it gets for seconds is gone.
    func stayOpen() {
        func set(_ level: Int32, _ option: Int32, _ value: Int32) {
            var value = value
            unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
        }
        var time = timeval()
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
        let tcp = Int32(IPPROTO_TCP)
        set(tcp, TCP_USER_TIMEOUT, 3000)
        set(SOL_SOCKET, SO_KEEPALIVE, 1)
        set(tcp, TCP_KEEPIDLE, 5)
        set(tcp, TCP_KEEPINTVL, 1)
    }

    /// Receives what comes next, and at most as many bytes as there is room for. Returns their number; nil if there are no more.
    func receiveSome(_ buffer: inout [UInt8]) -> Int? {
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(descriptor, $0.baseAddress, $0.count, 0) }
            if count > 0 { return count }
            if count == 0 || errno != EINTR { return nil }
        }
    }

    /// Sends as many of the bytes as there is room for. Returns their number; nil if the connection has ended.
    func sendSome(_ bytes: ArraySlice<UInt8>) -> Int? {
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, flags) }
        return count >= 0 ? count : errno == EAGAIN || errno == EINTR ? 0 : nil
    }

    /// Receives as many bytes as there is room for. Returns false if they do not come.
    func receive(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
        pass(bytes.count) { done in unsafe recv(descriptor, bytes.baseAddress! + done, bytes.count - done, 0) }
    }

    /// Sends bytes. Returns false if the peer does not take them.
    func send(_ bytes: UnsafeRawBufferPointer) -> Bool {
        pass(bytes.count) { done in unsafe Glibc.send(descriptor, bytes.baseAddress! + done, bytes.count - done, Int32(MSG_NOSIGNAL)) }
    }

    func send(_ bytes: [UInt8]) -> Bool { unsafe bytes.withUnsafeBytes { unsafe send($0) } }

    /// The next bytes; nil if they do not come.
    func receive(_ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return unsafe bytes.withUnsafeMutableBytes { unsafe receive($0) } ? bytes : nil
    }

    private func pass(_ count: Int, _ step: (Int) -> Int) -> Bool {
        var done = 0
        let end = Timers.now + patience
        while done < count {
            let passed = step(done)
            if passed > 0 { done += passed } else if passed == 0 || errno != EINTR { return false }
            // Not for ever, one byte at a time.
            if done < count, Timers.now > end { return false }
        }
        return true
    }
}
