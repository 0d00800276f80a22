/// Waits for the value that `begin` has another thread give.
///
/// It goes through a lock: ThreadSanitizer does not see that a continuation orders what two threads do, if it is resumed before the task waits.
public func valueGiven<Value: Sendable>(_ begin: (@escaping @Sendable (Value) -> Void) -> Void) async -> Value {
    let given = Locked<Value?>(nil)
    await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
        begin { value in
            given.withLock { $0 = value }
            done.resume()
        }
    }
    guard let value = given.withLock({ $0 }) else { fatalError("no value was given") }
    return value
}
