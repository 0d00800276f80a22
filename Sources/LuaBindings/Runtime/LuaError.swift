/// An error in a script that the host runs.
public struct LuaError: Error, CustomStringConvertible, Sendable {
    /// What went wrong, with the position that Lua put before it.
    public let message: String
    /// The stack when it was raised, starting with `stack traceback:`; empty for a syntax error.
    public let traceback: String
    /// Whether it is a syntax error at the end of the input: with more input it might be right.
    public let isIncomplete: Bool

    init(_ failure: Failure) {
        message = failure.message
        traceback = failure.traceback
        isIncomplete = failure.isIncomplete
    }

    init(message: String) { self.init(Failure(message: message)) }

    /// The message.
    public var description: String { message }

    /// Message and traceback, as the `lua` command shows them.
    public var report: String { traceback.isEmpty ? message : "\(message)\n\(traceback)" }
}
