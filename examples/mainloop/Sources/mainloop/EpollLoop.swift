import CEpoll
import Glibc
import OpEngine

/// A loop that waits for several events at once, among them those of the main queue.
final class EpollLoop {
    private let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    private let inbox = Engine.shared.mainInbox

    func run() {
        let timer = timerfd_create(CLOCK_MONOTONIC, Int32(TFD_NONBLOCK | TFD_CLOEXEC))
        var soon = itimerspec(it_interval: timespec(), it_value: timespec(tv_sec: 0, tv_nsec: 1_000_000))
        timerfd_settime(timer, 0, &soon, nil)
        watch(timer)
        watch(inbox.fileDescriptor)

        // Safety: only this thread uses it: the operation that ends the loop runs in `drain`.
        nonisolated(unsafe) var hasEnded = false
        MainLoop.startWork { hasEnded = true }
        var hasTicked = false
        while !(hasEnded && hasTicked) {
            for descriptor in wait() {
                if descriptor == timer {
                    var count: UInt64 = 0
                    read(timer, &count, 8)
                    hasTicked = true
                } else {
                    _ = inbox.drain()
                }
            }
        }
        print("the timer ticked as well")
    }

    private func watch(_ descriptor: Int32) {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
        epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)
    }

    /// Waits, and returns the readable descriptors.
    private func wait() -> [Int32] {
        var events = [epoll_event](repeating: epoll_event(), count: 8)
        let count = epoll_wait(epoll, &events, 8, -1)
        return events.prefix(Int(max(0, count))).map { $0.data.fd }
    }
}
