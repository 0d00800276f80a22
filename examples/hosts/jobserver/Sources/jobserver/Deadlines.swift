import Foundation
import LuaBindings

/// Cancels groups whose time is over. All have the same time, so the group that was added first ends first.
final class Deadlines: @unchecked Sendable {
    // Safety: `condition` guards the variables.
    private let condition = NSCondition()
    private var waiting: [(number: Int, end: Date, group: Runtime.Group)] = []
    private var last = 0
    private let seconds: TimeInterval

    /// - Parameter time: the time that each group has.
    init(time: Duration) {
        seconds = time / .seconds(1)
        Thread { [self] in cancelWhatIsLate() }.start()
    }

    func add(_ group: Runtime.Group) -> Int {
        condition.withLock {
            last += 1
            waiting.append((last, Date(timeIntervalSinceNow: seconds), group))
            if waiting.count == 1 { condition.signal() }
            return last
        }
    }

    func remove(_ number: Int) {
        condition.withLock {
            if let index = waiting.firstIndex(where: { $0.number == number }) { waiting.remove(at: index) }
        }
    }

    private func cancelWhatIsLate() {
        while true {
            let group = condition.withLock { () -> Runtime.Group in
                while true {
                    guard let first = waiting.first else {
                        condition.wait()
                        continue
                    }
                    if first.end <= Date() { return waiting.removeFirst().group }
                    _ = condition.wait(until: first.end)
                }
            }
            group.cancel()
        }
    }
}
