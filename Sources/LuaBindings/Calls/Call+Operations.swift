import CLua
import OpEngine
import Synchronization

extension Call {
    /// Does what the engine may refuse, or what may fail to be sent; the error is the caller's.
    @inline(__always)
    @discardableResult
    func misuse<Result>(_ body: () throws -> Result) throws(CallError) -> Result {
        do { return try body() } catch let error as CallError { throw error } catch let failure as Failure {
            throw CallError(failure)
        } catch {
            throw .message("\(error)")
        }
    }

    /// Reads an option; an error names it instead of a stack index.
    func option<T>(_ name: String, _ read: () throws(CallError) -> T) throws(CallError) -> T {
        do throws(CallError) { return try read() } catch {
            guard case .argument(_, let text) = error else { throw error }
            throw .message("\(name): \(text)")
        }
    }

    /// Assigns to the property whose name is at stack index 2; an error names it.
    @inline(__always)
    func assigning(_ body: () throws(CallError) -> Answer) throws(CallError) -> Answer {
        do throws(CallError) { return try body() } catch {
            return try option(string(at: 2) ?? "?") { () throws(CallError) in throw error }
        }
    }

    /// Seconds to wait at most; nil when the argument is missing.
    func timeout(at index: Int32) throws(CallError) -> Double? {
        isMissing(at: index) ? nil : try seconds(at: index)
    }

    /// Waits, running callbacks meanwhile. False when the time ran out.
    ///
    /// - Throws: an error naming the operations that nothing can finish any more.
    func wait(for operations: [Operation], timeout: Double?) throws(CallError) -> Bool {
        let deadline = timeout.map { ContinuousClock.now.advanced(by: .seconds(min($0, 1e9))) }
        return try wait(for: operations, until: deadline)
    }

    /// Waits until the queue is empty; what is added meanwhile is waited for as well.
    func wait(for queue: OperationQueue, timeout: Double?) throws(CallError) -> Bool {
        let deadline = timeout.map { ContinuousClock.now.advanced(by: .seconds(min($0, 1e9))) }
        let wait = queue.wait(in: state.inbox)
        defer { wait.end() }
        while true {
            while !wait.isOver {
                if let current = state.currentOperation, current.queue === queue { throw waitsForItself(current) }
                var isOver = false
                let outcome = try state.wait(deadline: deadline) {
                    isOver = wait.isOver
                    return isOver
                }
                if case .stalled = outcome { throw .message(Stall.message(for: queue.operations)) }
                guard isOver else { return false }
            }
            // They may add something, and so may what runs beside them.
            guard try state.runDueCompletions() || !wait.isOver else { return true }
        }
    }

    private func waitsForItself(_ operation: Operation) -> CallError {
        .message("\(operation.displayName) waits for itself, which can never end")
    }

    private func wait(for operations: [Operation], until deadline: ContinuousClock.Instant?) throws(CallError) -> Bool {
        let unfinished = operations.filter { !$0.isFinished }
        if unfinished.isEmpty {
            try state.runDueCompletions()
            return true
        }
        if let current = state.currentOperation, unfinished.contains(where: { $0 === current }) { throw waitsForItself(current) }
        // One wake-up, by the last of them.
        let count = Countdown(unfinished.count, inbox: state.inbox)
        for operation in unfinished { operation.whenFinished(for: count) { count.step() } }
        defer {
            if !count.hasEnded { for operation in unfinished { operation.forgetFinishHandlers(of: count) } }
        }
        switch try state.wait(deadline: deadline, until: { count.hasEnded }) {
        case .satisfied:
            if count.hasEnded { try state.runDueCompletions() }
            return count.hasEnded
        case .timedOut: return false
        case .stalled: throw .message(Stall.message(for: unfinished.filter { !$0.isFinished }))
        }
    }

    /// Pushes `main` and the elements of the table `arguments`; returns the stack index of the first, 0 without a main.
    func pushBody(main: Int32?, arguments: Int32?) throws(CallError) -> Int32 {
        guard let main else { return 0 }
        let first = count + 1
        var length: Int32 = 0
        if let arguments {
            guard isTable(at: arguments) else { throw .argument(1, "arguments must be a table, got a \(typeName(at: arguments))") }
            length = unsafe Int32(clamping: clua_packed_length(lua, arguments))
        }
        guard unsafe lua_checkstack(lua, length + 2) != 0 else { throw .message("too many arguments") }
        unsafe lua_pushvalue(lua, main)
        if let arguments, length > 0 {
            for position in 1...lua_Integer(length) { unsafe lua_rawgeti(lua, arguments, position) }
        }
        return first
    }

    /// Makes the handle of `operation` with the function at `index` and the arguments after it as its body; puts it at `index`.
    func attachBody(at index: Int32, to operation: LuaOperation) throws(CallError) {
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in
                unsafe clua_attach_body(lua, pointer, ObjectKind.operation.rawValue, index, &failure)
            }
        } catch { throw CallError(error) }
    }
}

/// Wakes a thread when as many things have happened as it waits for.
private final class Countdown: Sendable {
    private let left: Atomic<Int>
    private let inbox: Inbox

    init(_ count: Int, inbox: Inbox) {
        left = Atomic(count)
        self.inbox = inbox
    }

    func step() {
        if left.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { inbox.wake() }
    }

    var hasEnded: Bool { left.load(ordering: .acquiring) == 0 }
}

extension Operation.Naming {
    /// How scripts know operations and queues.
    static let script = Operation.Naming(operation: { $0.displayName }, queue: { $0.displayName })
}

/// Says why operations will never finish.
enum Stall {
    static func message(for operations: [Operation]) -> String {
        "this wait can never end: " + StallReport(waitingFor: operations).description(naming: .script)
    }

    /// The rest of a sentence that starts with the operation's name.
    static func reason(for operation: Operation) -> String {
        Operation.Blockage(of: operation).reason(naming: .script)
    }
}

extension OperationQueue {
    /// Its name: what messages call it.
    var displayName: String { givenName.map { "queue '\($0)'" } ?? "an unnamed queue" }
}
