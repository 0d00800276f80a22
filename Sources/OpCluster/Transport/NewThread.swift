import Glibc

/// Calls `body` on a new thread, which then ends.
package func onNewThread(_ body: @escaping @Sendable () -> Void) {
    final class Body: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    var thread = pthread_t()
    // Safety: the thread balances the retain.
    let body = unsafe Unmanaged.passRetained(Body(body))
    let error = unsafe pthread_create(
        &thread, &attributes,
        { context in
            if let context = unsafe context { unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().body() }
            return nil
        }, body.toOpaque())
    guard error == 0 else { fatalError("opscript: no thread can be started: \(unsafe String(cString: strerror(error)))") }
}

/// Leaves all signals to other threads.
func blockSignals() {
    var signals = sigset_t()
    unsafe sigfillset(&signals)
    unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
}
