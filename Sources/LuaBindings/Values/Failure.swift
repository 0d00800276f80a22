import CLua

/// Why a piece of Lua did not return: what was raised, in its own words, and where.
struct Failure: Error {
    /// What `tostring` says of the raised value.
    var message: String
    /// The stack at that moment, starting with `stack traceback:`; empty for a syntax error.
    var traceback: String
    /// What was raised, when it can be sent to other states.
    var value: Parcel?
    /// A syntax error at the end of the input: with more input it might be right.
    var isIncomplete: Bool
    var isMemoryError: Bool
    /// Why the body was stopped, if it was.
    var stop: StopReason?

    init(message: String) {
        self.message = message
        traceback = ""
        value = nil
        isIncomplete = false
        isMemoryError = false
        stop = nil
    }

    /// The same with other words, about no place in a script; not for what stops a body, or a lack of memory.
    func reworded(_ words: String) -> Failure { stop == nil && !isMemoryError ? Failure(message: words) : self }

    /// An operation was stopped while none of its code was running.
    init(stop reason: StopReason) {
        self.init(message: reason.words)
        stop = reason
    }

    /// Takes over what `failure` owns.
    init(taking failure: inout clua_failure) {
        message = unsafe string(failure.message, failure.message_count)
        traceback = unsafe string(failure.traceback, failure.traceback_count)
        isIncomplete = unsafe failure.incomplete != 0
        isMemoryError = unsafe failure.status == LUA_ERRMEM
        value = nil
        stop = StopReason(rawValue: unsafe failure.stop)
        if unsafe failure.value.value_count > 0 {
            unsafe value = Parcel(failure.value)
            unsafe failure.value = clua_parcel()
        }
        unsafe clua_failure_release(&failure)
    }

    /// Message and traceback, as the `lua` command shows them.
    var report: String { traceback.isEmpty ? message : "\(message)\n\(traceback)" }
}

/// Bytes that C made, as text; what is not UTF-8 is shown as U+FFFD.
private func string(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> String {
    guard let bytes = unsafe bytes else { return "" }
    return unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
}
