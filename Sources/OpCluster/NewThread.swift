import Glibc

/// Calls `body` on a new thread, which then ends.
package func onNewThread(_ body: @escaping @Sendable () -> Void) {
    let error = startThread(body)
    guard error == 0 else { fatalError("opscript: no thread can be started: \(unsafe String(cString: strerror(error)))") }
}

/// The same. Returns false if there can be no more threads.
func onNewThreadIfPossible(_ body: @escaping @Sendable () -> Void) -> Bool { startThread(body) == 0 }

/// Calls `body` on a new thread with a small stack, of which there may be many. Returns false if there can be no more threads.
func onSmallThread(_ body: @escaping @Sendable () -> Void) -> Bool { startThread(body, stackCount: 512 << 10) == 0 }

/// Leaves all signals to other threads.
func blockSignals() {
    var signals = sigset_t()
    unsafe sigfillset(&signals)
    unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
}

/// Returns the system's error; 0 if the thread runs.
private func startThread(_ body: @escaping @Sendable () -> Void, stackCount: Int? = nil) -> Int32 {
    final class Body: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    if let stackCount { unsafe pthread_attr_setstacksize(&attributes, stackCount) }
    var thread = pthread_t()
    // Safety: the thread balances the retain. Without a thread, this does.
    let body = unsafe Unmanaged.passRetained(Body(body))
    let error = unsafe pthread_create(
        &thread, &attributes,
        { context in
            if let context = unsafe context { unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().body() }
            return nil
        }, body.toOpaque())
    if error != 0 { unsafe body.release() }
    return error
}
