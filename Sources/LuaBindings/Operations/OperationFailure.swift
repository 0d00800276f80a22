public import OpEngine
import Synchronization

/// The error of an operation, as scripts see it and hosts catch it.
///
/// - Concurrency: immutable except for the atomic `isRead` mark; safe from every thread.
public final class OperationFailure: Error, CustomStringConvertible, TracedError, Sendable {
    /// The ways in which an operation fails.
    public enum Kind: String, Sendable, CaseIterable {
        /// The body raised an error, or its function or results could not be sent.
        case error
        /// The operation executed longer than its `timeout`.
        case timeout
        /// Memory ran out, or the body exceeded its memory limit.
        case memory
        /// The body executed more instructions than `Runtime.Limits.operationInstructions`.
        case instructions
        /// `interrupt()` stopped the operation.
        case interrupted
        /// The worker process in which the body ran has ended. See `Runtime.Configuration.isolation`.
        case process
        /// The workers of a cluster that had the operation were lost. See `Runtime.Cluster`.
        case lost
        /// A dependency failed or was cancelled, and its `dependencyPolicy` is `"succeeded"`.
        case dependency
        /// A condition did not hold.
        case condition
    }

    /// The raised value as `tostring` shows it, with the position that Lua has put before a string.
    public let message: String
    /// The stack at the raise, starting with `stack traceback:`; empty if nothing was running.
    public let traceback: String
    /// How the operation failed.
    public let kind: Kind
    /// The name of the operation that failed, if it has one.
    public let operationName: String?
    /// The name that the operation's queue was given; `main` for the main queue, nil for others and for members of a group.
    public let queueName: String?
    /// The name of the group that the operation is a member of, if it is one and the group has a name.
    public let groupName: String?
    /// The failed operation whose missing result made this one fail, as reports name it; nil if the failure is its own.
    public let cause: String?
    /// The error that a host function has thrown, if the operation failed because of it and its body has not replaced the message.
    public let underlyingError: (any Error)?
    let value: Parcel?
    private let failed: WeakOperation
    private let charge: Charge?
    /// For the failure of a group: the failure of the member that failed first, and that member.
    private let ofMember: (failure: OperationFailure, member: WeakOperation)?
    private let read = Atomic<Bool>(false)

    /// - Parameter kind: nil to take the kind of `failure`.
    init(_ failure: Failure, kind: Kind? = nil, of operation: Operation) {
        let core = (operation as? LuaOperation)?.core
        let limit = (kind ?? failure.failureKind) == .timeout ? (operation as? LuaOperation)?.timeout : nil
        let words =
            Self.words(of: failure.message, in: operation)
            + (limit.map { ": \(operation.displayName) took longer than \($0.scriptText) s" } ?? "")
        let kept = Words(words, failure.traceback, core)
        (message, traceback, charge) = (kept.message, kept.traceback, kept.charge)
        underlyingError = failure.underlyingError
        value = kept.fits ? failure.value : nil
        let kind = kept.kind(kind ?? failure.failureKind)
        value?.makeUnowned(referencesTo: operation)
        self.kind = kind
        operationName = operation.name
        (queueName, groupName) = Self.names(around: operation)
        cause = kind == .error ? MissingResult.cause(of: failure, in: operation) : nil
        failed = WeakOperation(operation)
        ofMember = nil
        countNames()
    }

    private func countNames() {
        guard let charge else { return }
        charge.change(to: [operationName, queueName, groupName].reduce(charge.count) { $0 + ($1?.utf8.count ?? 0) })
    }

    /// The texts of a failure as the limits of a runtime allow them.
    private struct Words {
        var message, traceback: String
        var charge: Charge?
        /// Whether the runtime has room for the failure. If not, the message says so instead.
        var fits = true

        init(_ message: String, _ traceback: String, _ core: RuntimeCore?) {
            let longest = core?.usage.limits.valueBytes ?? .max
            (self.message, self.traceback) = (Self.cut(message, to: longest), Self.cut(traceback, to: longest))
            guard let ledger = core?.ledger else { return }
            var bytes: Int { self.message.utf8.count + self.traceback.utf8.count }
            if !ledger.hasRoom(for: .failure, bytes) { (self.message, self.traceback, fits) = (ledger.refusal, "", false) }
            charge = Charge(.failure, bytes, in: ledger)
        }

        /// A failure without room is one of memory, unless it says how the operation was ended.
        func kind(_ kind: Kind) -> Kind { fits || kind != .error ? kind : .memory }

        private static func cut(_ text: String, to count: Int) -> String {
            text.utf8.count <= count ? text : String(decoding: text.utf8.prefix(count), as: UTF8.self) + "…"
        }
    }

    /// The message, or if it is empty what is known.
    private static func words(of message: String, in operation: Operation) -> String {
        guard message.allSatisfy(\.isWhitespace) || isPosition(message) else { return message }
        let program = (operation as? LuaOperation)?.rare { $0.failedProgram }.map { "; \($0)" } ?? ""
        return "\(message)error without a message\(program)"
    }

    /// Whether a message is only the position that `error` puts before it: `a.lua:12: `.
    private static func isPosition(_ message: String) -> Bool {
        guard message.hasSuffix(": "), let colon = message.dropLast(2).lastIndex(of: ":") else { return false }
        let line = message[message.index(after: colon)...].dropLast(2)
        return !line.isEmpty && line.allSatisfy(\.isNumber)
    }

    /// The failure of a group because of a member's. If the member is a group itself, the failure is that of its own member, so that messages
    /// do not grow with the depth. Nil if the member has no error.
    init?(of member: Operation, inGroup group: Operation) {
        guard let error = member.error else { return nil }
        let failure = error as? OperationFailure ?? OperationFailure(Failure(thrown: error), of: member)
        // If the member is a group, its message already has the names.
        let isNamed = if case OperationError.memberFailed? = error as? OperationError { true } else { failure.ofMember != nil }
        ofMember = failure.ofMember ?? (failure: failure, member: WeakOperation(member))
        let words = isNamed ? failure.message : "\(member.displayName) in \(group.displayName) has failed: \(failure.message)"
        let kept = Words(words, failure.traceback, (group as? LuaOperation)?.core)
        (message, traceback, charge) = (kept.message, kept.traceback, kept.charge)
        (kind, underlyingError) = (failure.kind, failure.underlyingError)
        (value, cause) = (nil, nil)
        operationName = group.name
        (queueName, groupName) = Self.names(around: group)
        failed = WeakOperation(group)
        countNames()
    }

    /// The failure of an operation that ran on another machine.
    init(received failure: WireReader.ReceivedFailure, value: Parcel?, of operation: LuaOperation?) {
        let kept = Words(failure.message, failure.traceback, operation?.core)
        (message, traceback, charge) = (kept.message, kept.traceback, kept.charge)
        kind = kept.kind(failure.kind)
        (operationName, queueName) = (operation?.name ?? failure.operationName, failure.queueName)
        self.value = kept.fits ? value : nil
        if let operation { value?.makeUnowned(referencesTo: operation) }
        (groupName, cause) = (failure.groupName, failure.cause)
        (underlyingError, ofMember) = (nil, nil)
        failed = WeakOperation(operation)
        countNames()
    }

    private static func names(around operation: Operation) -> (queue: String?, group: String?) {
        if let group = operation.surroundingGroup { return (nil, group.name) }
        return (operation.queue.flatMap { $0.givenName ?? ($0.isMain ? "main" : nil) }, nil)
    }

    /// The member whose failure made a group fail, while it is alive. Nil if the failure is the operation's own.
    public var member: Operation? { ofMember?.member.operation }

    /// The failed operation, while it is alive. This object does not keep it alive.
    public var operation: Operation? { failed.operation }

    /// Whether a script or the host has read the failure. Unread failures are reported at the end.
    public var isRead: Bool { read.load(ordering: .relaxed) }

    /// Marks the failure as read. For the failure of a group, marks that of its member as well.
    func markRead() {
        read.store(true, ordering: .relaxed)
        ofMember?.failure.markRead()
    }

    /// The message.
    public var description: String { message }

    /// The operation's name in reports; nil if it has none.
    package var shownName: String? { operationName?.shown }

    /// The operation with its queue and its group, in reports.
    package var place: String {
        let queue = queueName.map { " of queue '\($0.shown)'" } ?? "", group = groupName.map { " of group '\($0.shown)'" } ?? ""
        return operationDescription + queue + group
    }

    /// The operation in reports: its name, or else the place of its function.
    public var operationDescription: String {
        if let shownName { return "operation '\(shownName)'" }
        return functionPosition.map { "an operation <\($0)>" } ?? "an operation"
    }

    /// The file and line of the operation's function, which is the outermost of the traceback. Nil if a tail call has replaced it.
    private var functionPosition: String? {
        let outermost = traceback.split(separator: "\n").last { $0.hasSuffix(">") || $0 == "\t(...tail calls...)" }
        guard let outermost, outermost.hasSuffix(">"), let start = outermost.lastIndex(of: "<") else { return nil }
        return String(outermost[outermost.index(after: start)...].dropLast())
    }

    /// Message and traceback. If a host function failed because of another script's error, the traceback of that error follows.
    public var report: String { LuaError.report(message, traceback, underlyingError) }
}

extension Failure {
    /// How a body with this failure has failed.
    var failureKind: OperationFailure.Kind { stop?.failureKind ?? (isMemoryError ? .memory : isProcessLost ? .process : .error) }

    /// Makes the failure of an operation that was to stop because of `reason`. A worker of a cluster has interrupted the body; `failure` tells
    /// where.
    init(interrupt failure: OperationFailure, by reason: StopReason) {
        self.init(stop: reason)
        let interruption = StopReason.interrupted.message
        if failure.message.hasSuffix(interruption) { message = failure.message.dropLast(interruption.count) + message }
        traceback = failure.traceback
    }
}

extension StopReason {
    var failureKind: OperationFailure.Kind {
        switch self {
        case .interrupted: .interrupted
        case .timeout: .timeout
        case .memory: .memory
        case .instructions: .instructions
        }
    }
}

/// An operation owns its failure, so the failure must not own the operation.
// Safety: a weak reference may be loaded from any thread, and no code stores to this one again.
struct WeakOperation: @unchecked Sendable {
    private(set) weak var operation: Operation?

    init(_ operation: Operation?) { self.operation = operation }
}
