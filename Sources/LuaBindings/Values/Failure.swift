import CLua

/// The reason why Lua code did not return: the raised error and its place.
struct Failure: Error {
    /// The raised value as `tostring` shows it.
    var message: String
    /// The stack at the raise, starting with `stack traceback:`; empty for a syntax error.
    var traceback: String
    /// The raised value, if it can be sent to other states.
    var value: Parcel?
    /// Whether the failure is a syntax error at the end of the input, so that more input could make the chunk valid.
    var isIncomplete: Bool
    var isMemoryError: Bool
    /// Whether the failure is a syntax error in source that the host has loaded.
    var isSyntaxError = false
    /// Whether the worker process that ran the code has ended.
    var isProcessLost = false
    /// Whether the failure is that a value cannot be sent to another state.
    var isRefusal = false
    /// Whether the system had no descriptor or process left, so that another attempt may succeed later.
    var isShortage = false
    /// Whether a signal has raised the error.
    var isInterrupt = false
    /// The error that a host function has thrown, if it caused the Lua error.
    var underlyingError: (any Error)?
    /// The reason why the body was stopped; nil if it was not.
    var stop: StopReason?

    init(message: String) {
        self.message = message
        traceback = ""
        value = nil
        isIncomplete = false
        isMemoryError = false
        stop = nil
    }

    /// The failure of an operation of the host.
    init(thrown error: any Error) {
        self.init(message: "\(error)")
        underlyingError = error
    }

    /// The failure with another message and without a place. Returns the failure unchanged if it stops a body or reports a lack of memory.
    func with(message: String) -> Failure { stop == nil && !isMemoryError ? Failure(message: message) : self }

    /// Makes the failure of an operation that was stopped while none of its code was running.
    init(stop reason: StopReason) {
        self.init(message: reason.message)
        stop = reason
    }

    /// Takes over the memory that `failure` owns.
    init(taking failure: inout clua_failure) {
        message = unsafe string(failure.message, failure.message_count)
        traceback = unsafe string(failure.traceback, failure.traceback_count)
        isIncomplete = unsafe failure.incomplete != 0
        isMemoryError = unsafe failure.status == LUA_ERRMEM
        isSyntaxError = unsafe failure.status == LUA_ERRSYNTAX
        isProcessLost = unsafe failure.status == CLUA_PROCESS_LOST
        value = nil
        stop = StopReason(rawValue: unsafe failure.stop)
        if unsafe failure.value.value_count > 0 {
            unsafe value = Parcel(failure.value)
            unsafe failure.value = clua_parcel()
        }
        unsafe clua_failure_release(&failure)
    }

    /// The message and the traceback, as the `lua` command shows them.
    var report: String { LuaError.report(message, traceback, underlyingError) }
}

/// Text from bytes of C. Invalid UTF-8 becomes U+FFFD.
private func string(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> String {
    guard let bytes = unsafe bytes else { return "" }
    return unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
}
