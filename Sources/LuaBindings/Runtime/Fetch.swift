import CIO
import OpEngine

/// One attempt of an HTTP request. If no reference is left, the request ends.
@safe
final class Fetch {
    private let pointer: OpaquePointer

    /// Makes the request and waits for its end, while callbacks of `state` run. The waiting operation has no place meanwhile. Writes the body
    /// to the file, on the thread of the state.
    ///
    /// - Throws: also a stop if the operation was cancelled. The request ends then.
    init(_ request: cio_request, to descriptor: Int32?, in state: LuaState) throws(CallError) {
        let inbox = state.inbox
        guard let pointer = unsafe state.core.io.fetch(request, { inbox.wake() }) else {
            throw .message("cannot make the request: memory has run out, or the runtime is closed")
        }
        unsafe self.pointer = pointer
        state.core.engine.hold()
        defer { state.core.engine.release() }
        var hasEnded = false
        _ = try state.wait(deadline: nil) {
            hasEnded = unsafe hasEnded || cio_fetch_advance(pointer, descriptor ?? -1)
            return hasEnded
        }
        if !hasEnded { throw .stop(.interrupted) }
    }

    deinit {
        unsafe cio_fetch_end(pointer)
        unsafe cio_fetch_release(pointer)
    }

    /// The result, valid as long as this object lives.
    var result: cio_fetch_result { unsafe cio_fetch_get_result(pointer).pointee }
}
