import Glibc

/// A pipe that nothing is written to. Closing its writing end is an event that a thread can wait for.
struct Pipe: Sendable {
    private let read: Int32
    private let write: Int32

    /// Nil if the process has no descriptors left.
    init?() {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        (read, write) = (ends[0], ends[1])
    }

    func closeReading() { close(read) }
    func closeWriting() { close(write) }

    /// Waits until the writing end is closed. Returns false if that does not happen within so many milliseconds.
    func isClosed(within milliseconds: Int) -> Bool {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while true {
            let left = ContinuousClock.now.duration(to: end)
            let wait = max(0, left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000)
            var event = pollfd(fd: read, events: 0, revents: 0)
            let count = unsafe poll(&event, 1, Int32(wait))
            if count > 0 { return true }
            if count == 0 { return false }
        }
    }
}
