public import OpEngine
import Synchronization

/// The error of an operation, as scripts see it and as hosts catch it.
///
/// - Concurrency: immutable but for the mark that it was read; safe from every thread.
public final class OperationFailure: Error, CustomStringConvertible, Sendable {
    /// The ways in which an operation fails.
    public enum Kind: String, Sendable, CaseIterable {
        /// The body raised an error, or its function or its results could not be sent.
        case error
        /// It ran longer than its `timeout`.
        case timeout
        /// Memory ran out, or the body went past its limit.
        case memory
        /// `interrupt()` stopped it.
        case interrupted
        /// A dependency failed or was cancelled, and its `dependencyPolicy` is `"succeeded"`.
        case dependency
    }

    /// What `tostring` says of what was raised, with the position that Lua put before it.
    public let message: String
    /// The stack when it was raised, starting with `stack traceback:`; empty where nothing was running.
    public let traceback: String
    /// How it failed.
    public let kind: Kind
    /// The name of the operation that failed, if it has one.
    public let operationName: String?
    let value: Parcel?
    private let failed: WeakOperation
    private let read = Atomic<Bool>(false)

    init(_ failure: Failure, kind: Kind, of operation: Operation) {
        let limit = kind == .timeout ? (operation as? LuaOperation)?.timeout : nil
        message = failure.message + (limit.map { ": \(operation.displayName) took longer than \($0.scriptText) s" } ?? "")
        traceback = failure.traceback
        value = failure.value
        value?.letGo(of: operation)
        self.kind = kind
        operationName = operation.name
        failed = WeakOperation(operation)
    }

    /// The operation, while it is alive.
    public var operation: Operation? { failed.operation }

    /// Whether a script or the host has looked at it; a failure that nobody read is reported at the end.
    public var isRead: Bool { read.load(ordering: .relaxed) }

    func markRead() { read.store(true, ordering: .relaxed) }

    /// The message.
    public var description: String { message }

    /// Message and traceback.
    public var report: String { traceback.isEmpty ? message : "\(message)\n\(traceback)" }
}

/// An operation owns its failure, so the failure must not own the operation.
// Safety: a weak reference may be loaded from any thread, and is never stored to again.
struct WeakOperation: @unchecked Sendable {
    private(set) weak var operation: Operation?

    init(_ operation: Operation) { self.operation = operation }
}

extension LuaOperation: ClassNaming {
    /// What scripts call its class.
    package var className: String {
        if let scriptClass { return scriptClass.name }
        return switch kind {
        case .blocks: "BlockOperation"
        case .invocation: "InvocationOperation"
        default: "Operation"
        }
    }
}

extension Operation {
    /// What scripts call its class.
    var scriptClassName: String {
        (self as? LuaOperation)?.className ?? (self is BlockOperation ? "BlockOperation" : "Operation")
    }

    /// Its name, or its class where it has none: what messages call it.
    var displayName: String { name.map { "'\($0)'" } ?? "an unnamed \(scriptClassName)" }
}
