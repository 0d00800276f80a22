public import COpscript
import LuaBindings
import OpEngine

/// A call that the program should not have made.
struct Misuse: Error {
    let message: String

    init(_ message: String) { self.message = message }
}

/// A function of the program has returned false.
struct CallbackError: Error, CustomStringConvertible {
    let description: String

    init(_ results: ListObject) {
        switch results.values.first?.value {
        case .string(let text): description = text
        case .bytes(let bytes): description = String(decoding: bytes, as: UTF8.self)
        case let value?: description = value.description
        case nil: description = "a function of the host has failed"
        }
    }
}

/// An end that C reports as an error, though Swift does not.
enum Ended: Error {
    case cancelled(String)
    case timedOut
    case interrupted
}

/// The object behind `opscript_error`.
// Safety: the header says that one thread at a time uses an error. Only `value` changes.
final class ErrorObject: @unchecked Sendable {
    let kind: opscript_error_kind
    let message: CText
    let traceback: CText
    let path: CText
    let report: CText
    let isIncomplete: Bool
    let value: ValueObject

    init(
        _ kind: opscript_error_kind, _ message: String, traceback: String = "", path: String = "", report: String? = nil,
        isIncomplete: Bool = false, value: LuaValue? = nil
    ) {
        self.kind = kind
        self.message = CText(shown: message)
        self.traceback = CText(shown: traceback)
        self.path = CText(shown: path)
        self.report = CText(shown: report ?? message)
        self.isIncomplete = isIncomplete
        self.value = ValueObject(value ?? .string(message))
    }

    /// - Parameter function: the function in C that fails.
    convenience init(_ error: any Error, in function: String) {
        switch error {
        case let error as LuaError:
            var path = ""
            if case .conversion(let found) = error.kind { path = found }
            self.init(
                error.kind.inC, error.message, traceback: error.traceback, path: path, report: error.report,
                isIncomplete: error.isIncomplete, value: error.value)
        case let failure as OperationFailure:
            self.init(failure.kind.inC, failure.message, traceback: failure.traceback, report: failure.report)
        case let error as OperationError: self.init(error.kindInC, error.description)
        case let error as PathError: self.init(OPSCRIPT_CONVERSION, error.message, path: error.path)
        case let misuse as Misuse: self.init(OPSCRIPT_MISUSE, "\(function): \(misuse.message)")
        case Ended.cancelled(let name): self.init(OPSCRIPT_CANCELLED, "\(name) was cancelled, so it has no results")
        case Ended.timedOut: self.init(OPSCRIPT_TIMED_OUT, "\(function): the time was over before what it waited for")
        case Ended.interrupted: self.init(OPSCRIPT_INTERRUPTED, "interrupted!")
        default: self.init(OPSCRIPT_RUNTIME, "\(error)")
        }
    }
}

extension LuaError.Kind {
    fileprivate var inC: opscript_error_kind {
        switch self {
        case .syntax: OPSCRIPT_SYNTAX
        case .runtime: OPSCRIPT_RUNTIME
        case .memory: OPSCRIPT_MEMORY
        case .time: OPSCRIPT_TIME
        case .instructions: OPSCRIPT_INSTRUCTIONS
        case .interrupted: OPSCRIPT_INTERRUPTED
        case .notSendable: OPSCRIPT_NOT_SENDABLE
        case .conversion: OPSCRIPT_CONVERSION
        }
    }
}

extension OperationFailure.Kind {
    fileprivate var inC: opscript_error_kind {
        switch self {
        case .error, .process, .lost: OPSCRIPT_RUNTIME
        case .timeout: OPSCRIPT_TIME
        case .memory: OPSCRIPT_MEMORY
        case .instructions: OPSCRIPT_INSTRUCTIONS
        case .interrupted: OPSCRIPT_INTERRUPTED
        case .dependency: OPSCRIPT_DEPENDENCY
        case .condition: OPSCRIPT_CONDITION
        }
    }
}

extension OperationError {
    /// Most of these errors refuse a call.
    fileprivate var kindInC: opscript_error_kind {
        switch self {
        case .dependencyNotSucceeded: OPSCRIPT_DEPENDENCY
        case .neverFinishes, .queueStaysFull, .engineShutDown, .noThread: OPSCRIPT_RUNTIME
        default: OPSCRIPT_MISUSE
        }
    }
}

/// The variable for an error that a caller in C passes; NULL if the caller wants none.
public typealias ErrorPlace = UnsafeMutablePointer<OpaquePointer?>

/// Calls `body`. If it throws, makes an error for C and returns nil.
///
/// - Parameter function: the function in C, for messages.
func reporting<Result>(_ function: String, to place: ErrorPlace?, _ body: () throws -> Result) -> Result? {
    do { return try body() } catch {
        place?.pointee = retained(ErrorObject(error, in: function))
        return nil
    }
}

extension Void? {
    /// Whether a function without a result has done its work.
    var isDone: Bool { self != nil }
}

/// `opscript_error_get_kind`
@_cdecl("opscript_error_get_kind")
public func kind(_ error: OpaquePointer?) -> opscript_error_kind { object(error, as: ErrorObject.self)?.kind ?? OPSCRIPT_NO_ERROR }

/// `opscript_error_message`
@_cdecl("opscript_error_message")
public func message(_ error: OpaquePointer?) -> UnsafePointer<CChar>? {
    object(error, as: ErrorObject.self).map { .init($0.message.bytes) }
}

/// `opscript_error_traceback`
@_cdecl("opscript_error_traceback")
public func traceback(_ error: OpaquePointer?) -> UnsafePointer<CChar>? {
    object(error, as: ErrorObject.self).map { .init($0.traceback.bytes) }
}

/// `opscript_error_path`
@_cdecl("opscript_error_path")
public func path(_ error: OpaquePointer?) -> UnsafePointer<CChar>? { object(error, as: ErrorObject.self).map { .init($0.path.bytes) } }

/// `opscript_error_report`
@_cdecl("opscript_error_report")
public func report(_ error: OpaquePointer?) -> UnsafePointer<CChar>? { object(error, as: ErrorObject.self).map { .init($0.report.bytes) } }

/// `opscript_error_is_incomplete`
@_cdecl("opscript_error_is_incomplete")
public func isIncomplete(_ error: OpaquePointer?) -> Bool { object(error, as: ErrorObject.self)?.isIncomplete ?? false }

/// `opscript_error_value`
@_cdecl("opscript_error_value")
public func raisedValue(_ error: OpaquePointer?) -> OpaquePointer? { object(error, as: ErrorObject.self).map { borrowed($0.value) } }

/// `opscript_error_free`
@_cdecl("opscript_error_free")
public func freeError(_ error: OpaquePointer?) { release(error, as: ErrorObject.self) }
