import OpEngine

// Types and members of an application with short names. Inside a subclass, such a name means the application's type, because no type is
// nested in the classes of the engine. A member may have the name of any member that Foundation's classes do not have.

enum Condition { case mine }
enum Outcome { case mine }
enum Blocker { case mine }
enum Blockage { case mine }
enum DependencyPolicy { case mine }
enum Naming { case mine }
enum State { case mine }
enum Event { case mine }
enum Kind { case mine }
enum Core { case mine }
enum Answer { case mine }
enum Value { case mine }
/// Created as Foundation's class is.
struct Progress: Equatable { let totalUnitCount: Int }

/// The application's types, as its code names them inside a class.
struct NamedTypes: Equatable {
    var condition = Condition.mine, outcome = Outcome.mine, blocker = Blocker.mine, blockage = Blockage.mine
    var policy = DependencyPolicy.mine, naming = Naming.mine, state = State.mine, event = Event.mine, kind = Kind.mine
    var core = Core.mine, answer = Answer.mine, value = Value.mine, progress = Progress(totalUnitCount: 1)
}

/// Uses the application's types in an operation.
class OperationWithTypes: Operation {
    func types() -> NamedTypes {
        NamedTypes(
            condition: Condition.mine, outcome: Outcome.mine, blocker: Blocker.mine, blockage: Blockage.mine,
            policy: DependencyPolicy.mine, naming: Naming.mine, state: State.mine, event: Event.mine, kind: Kind.mine, core: Core.mine,
            answer: Answer.mine, value: Value.mine, progress: Progress(totalUnitCount: 1))
    }
}

/// Uses the application's types in an operation of blocks.
final class BlocksWithTypes: BlockOperation {
    func types() -> NamedTypes {
        NamedTypes(
            condition: Condition.mine, outcome: Outcome.mine, blocker: Blocker.mine, blockage: Blockage.mine,
            policy: DependencyPolicy.mine, naming: Naming.mine, state: State.mine, event: Event.mine, kind: Kind.mine, core: Core.mine,
            answer: Answer.mine, value: Value.mine, progress: Progress(totalUnitCount: 1))
    }
}

/// Uses the application's types in a queue.
final class QueueWithTypes: OperationQueue {
    func types() -> NamedTypes {
        NamedTypes(
            condition: Condition.mine, outcome: Outcome.mine, blocker: Blocker.mine, blockage: Blockage.mine,
            policy: DependencyPolicy.mine, naming: Naming.mine, state: State.mine, event: Event.mine, kind: Kind.mine, core: Core.mine,
            answer: Answer.mine, value: Value.mine, progress: Progress(totalUnitCount: 1))
    }
}

/// Declares members with names of the engine's that Foundation's `Operation` does not have, and with common names.
final class OperationWithMembers: OperationWithTypes {
    var state = "state", result = "result", errors: [String] = ["errors"], error = "error", outcome = "outcome", queue = "queue"
    var engine = "engine", group = "group", attempt = "attempt", needs = "needs", admission = "admission"
    var retryPolicy = "retryPolicy", dependencyPolicy = "dependencyPolicy", lock = "lock", core = "core"
    var whyNotRunning = "whyNotRunning", extras = "extras", number = "number", links = "links", label = "label", task = "task"
    var conditions: [Condition] = [], observers: [String] = [], timeout = 1.0, memberQueue = "memberQueue", storedName = "storedName"
    static var current = "current"
    func finish() -> String { "finish" }
    func finish(_ errors: [String]) -> String { "finish" + errors.joined() }
    func finish(with error: String) -> String { "finish" + error }
    func fail(with error: String) -> String { "fail" + error }
    func end() -> String { "end" }
    func finished() -> String { "finished" }
    func willFinish() {}
    func didFinish() {}
    func values() -> String { "values" }
    func addCondition(_ condition: Condition) { conditions.append(condition) }
    func addObserver(_ observer: String) { observers.append(observer) }
    func whenFinished(_ block: @escaping () -> Void) -> String { "whenFinished" }
    func observe(_ text: String) -> String { "observe" + text }
    func transition() -> String { "transition" }

    func members() -> String {
        addCondition(.mine)
        addObserver("observer")
        let properties = [
            state, result, error, outcome, queue, engine, group, attempt, needs, retryPolicy,
            dependencyPolicy, whyNotRunning, Self.current,
        ]
        let methods = [finish(), finish(errors), finish(with: "1"), fail(with: "2"), end(), finished(), values(), observe("3")]
        return (properties + methods + [whenFinished {}, transition()]).joined(separator: " ")
    }
}

/// Declares members with names of the engine's that Foundation's `OperationQueue` does not have.
final class QueueWithMembers: OperationQueue {
    var engine = "engine", events = "events", core = "core", state = "state", error = "error", label = "label"
    var maxPendingOperationCount = "maxPendingOperationCount", dependencyPolicy = "dependencyPolicy", delegate = "delegate"
    func map() -> String { "map" }
    func finished() -> String { "finished" }
    func addObserver(_ observer: String) -> String { observer }
    func addOperation<Value>(_ body: @escaping @Sendable () async throws -> Value) -> String { "async" }

    func members() -> String {
        [engine, events, maxPendingOperationCount, dependencyPolicy, map(), finished(), addObserver("observer")]
            .joined(separator: " ")
    }
}

/// Declares values that are not optional where the engine's are, and a number of another type.
final class OperationWithOwnQueue: Operation {
    let ownQueue = OperationQueue()
    var queue: OperationQueue { ownQueue }
    let error = CancellationError()
    let attempt: UInt8 = 7
    var isAnotherAttempt: Bool { attempt > 6 }
}

/// Members in an extension, with names that are not declared in the classes themselves.
extension Operation {
    var attemptErrors: String { "extension" }
    var exclusiveKeys: String { "extension" }
    func tryStart() -> String { "extension" }
}

extension OperationQueue {
    var rateLimit: String { "extension" }
}
