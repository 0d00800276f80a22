import Synchronization

/// A value that threads wait for and another thread gives.
public final class Awaited<Value: Sendable>: Sendable {
    private let value = Guarded<Value?>(nil)
    private let isGiven = Atomic<UInt32>(0)

    /// Makes one without a value.
    public init() {}

    /// Gives the value. Only the first one counts.
    public func give(_ value: Value) {
        self.value.withLock { $0 = $0 ?? value }
        isGiven.store(1, ordering: .releasing)
        futexWake(isGiven, count: .max)
    }

    /// Waits for the value.
    public func get() -> Value {
        while true {
            if let value = value.withLock({ $0 }) { return value }
            futexWait(isGiven, while: 0, until: nil)
        }
    }
}
