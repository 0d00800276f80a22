/// An error of a script that the host runs, or of a value on its way between Lua and Swift.
public struct LuaError: Error, CustomStringConvertible, Sendable {
    /// The kinds of errors.
    public enum Kind: Sendable, Hashable {
        /// The source is no valid Lua. `isIncomplete` says that the error is at the end of the source, so that more text could make it valid.
        case syntax(isIncomplete: Bool)
        /// The script, or a function that it called, has raised an error. Or the runtime has refused a call, such as one after `close`.
        case runtime
        /// The script needed more memory than there is, or than it may use.
        case memory
        /// The script ran longer than it may.
        case time
        /// The script executed more instructions than it may.
        case instructions
        /// The host or a signal has ended the script.
        case interrupted
        /// A function or a value cannot be copied to another Lua state. The message names the value and the path to it.
        case notSendable
        /// A value does not fit the Swift type. `path` leads to it as Lua would write it, such as `rows[3].price`; empty for the whole value.
        case conversion(path: String)
    }

    /// The kind of the error.
    public let kind: Kind
    /// The error message, with the position that Lua has put before it.
    public let message: String
    /// The stack at the raise, starting with `stack traceback:`; empty for a syntax error.
    public let traceback: String
    /// The raised value: usually the message, but a script may raise any value.
    public let value: LuaValue
    /// The error that a host function has thrown, if it has ended the script and the script has not replaced its message.
    public let underlyingError: (any Error)?
    /// The value that did not fit; nil for errors of other kinds.
    let mismatch: Mismatch?

    init(_ failure: Failure, value: LuaValue? = nil) {
        kind = failure.kind
        message = failure.message
        traceback = failure.traceback
        self.value = value ?? .string(failure.message)
        underlyingError = failure.underlyingError
        mismatch = nil
    }

    init(message: String) { self.init(Failure(message: message)) }

    /// The error of every call after `Runtime.close`.
    static var closed: LuaError { LuaError(message: "the runtime is closed") }

    init(_ mismatch: Mismatch) {
        kind = .conversion(path: mismatch.pathText)
        message = mismatch.message
        traceback = ""
        value = .string(mismatch.message)
        underlyingError = nil
        self.mismatch = mismatch
    }

    /// The error for a value that does not fit, for implementations of `LuaConvertible`. Arrays and dictionaries around the value add the
    /// path to it.
    ///
    /// - Parameters:
    ///   - expected: the name of the values that fit, with its article: `a number`.
    ///   - found: the value.
    public static func mismatch(expected: String, found: LuaValue) -> LuaError { LuaError(Mismatch(expected: expected, found: found)) }

    /// Whether the error is a syntax error at the end of the input, so that more input could make the chunk valid.
    public var isIncomplete: Bool { kind == .syntax(isIncomplete: true) }

    /// The message.
    public var description: String { message }

    /// The message and the traceback, as the `lua` command shows them. If a host function failed because of another script's error, the
    /// traceback of that error follows.
    public var report: String { Self.report(message, traceback, underlyingError) }

    static func report(_ message: String, _ traceback: String, _ underlying: (any Error)?) -> String {
        let inner =
            switch underlying {
            case let error as any TracedError where !error.traceback.isEmpty: "\ncaused by: \(error.report)"
            default: ""
            }
        return (traceback.isEmpty ? message : "\(message)\n\(traceback)") + inner
    }
}

extension Failure {
    fileprivate var kind: LuaError.Kind {
        switch stop {
        case .timeout: .time
        case .memory: .memory
        case .instructions: .instructions
        case .interrupted: .interrupted
        case nil where isMemoryError: .memory
        case nil where isSyntaxError: .syntax(isIncomplete: isIncomplete)
        case nil where isRefusal: .notSendable
        case nil where isInterrupt: .interrupted
        case nil: .runtime
        }
    }
}

/// An error with the stack of Lua at its raise.
protocol TracedError: Error {
    var traceback: String { get }
    /// Message and traceback.
    var report: String { get }
}

extension LuaError: TracedError {}
