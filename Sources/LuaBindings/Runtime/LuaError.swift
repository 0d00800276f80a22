/// An error of a script that the host runs.
public struct LuaError: Error, CustomStringConvertible, Sendable {
    /// The error message, after the position that Lua put before it.
    public let message: String
    /// The stack at the raise, starting with `stack traceback:`; empty for a syntax error.
    public let traceback: String
    /// Whether the error is a syntax error at the end of the input, so that more input could make the chunk valid.
    public let isIncomplete: Bool

    init(_ failure: Failure) {
        message = failure.message
        traceback = failure.traceback
        isIncomplete = failure.isIncomplete
    }

    init(message: String) { self.init(Failure(message: message)) }

    /// The error of every call after `Runtime.close`.
    static var closed: LuaError { LuaError(message: "the runtime is closed") }

    /// The message.
    public var description: String { message }

    /// The message and the traceback, as the `lua` command shows them.
    public var report: String { traceback.isEmpty ? message : "\(message)\n\(traceback)" }
}
