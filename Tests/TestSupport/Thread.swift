import Glibc

private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Starts a thread that runs `body`.
@discardableResult
private func start(isDetached: Bool = false, _ body: @escaping @Sendable () -> Void) -> pthread_t {
    var thread = pthread_t()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    if isDetached { pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED)) }
    defer { pthread_attr_destroy(&attributes) }
    let argument = Unmanaged.passRetained(Body(body)).toOpaque()
    let result = pthread_create(
        &thread, &attributes,
        { argument in
            Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue().run()
            return nil
        }, argument)
    precondition(result == 0, "cannot start a thread")
    return thread
}

/// Runs `body` on a new thread that is never joined.
public func startThread(_ body: @escaping @Sendable () -> Void) { start(isDetached: true, body) }

/// Runs `body` on `count` new threads at once, and waits until they have ended and given back what they held. Passes their numbers, from 0.
public func onThreads(_ count: Int, _ body: @escaping @Sendable (_ number: Int) -> Void) {
    let threads = (0..<count).map { number in start { body(number) } }
    for thread in threads { pthread_join(thread, nil) }
}
