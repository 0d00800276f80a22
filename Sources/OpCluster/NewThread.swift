import Glibc

/// Calls `body` on a new thread, which then ends.
package func onNewThread(_ body: @escaping @Sendable () -> Void) {
    final class Body: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    var thread = pthread_t()
    // Safety: the thread balances the retain.
    let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
    let error = unsafe pthread_create(
        &thread, nil,
        { context in
            if let context = unsafe context { unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().body() }
            return nil
        }, context)
    guard error == 0 else { fatalError("opscript: no thread can be started: \(unsafe String(cString: strerror(error)))") }
    pthread_detach(thread)
}
