import Dispatch
public import OpEngine

extension Engine {
    /// Runs the operations of the main queue on `DispatchQueue.main` from now on, for programs that end with `dispatchMain()` or run a run
    /// loop. Call it once, from any thread. Sets `mainInbox.onWake`.
    ///
    /// Under `dispatchMain()`, the main queue's operations run on no particular thread, because that function ends the first one. An
    /// operation of the main queue that waits runs others inside the wait, on the thread that it has.
    public func attachMainQueueToDispatch() {
        mainInbox.onWake = { [weak mainInbox] in
            guard let mainInbox else { return }
            DispatchQueue.main.async { _ = mainInbox.drain() }
        }
    }
}
