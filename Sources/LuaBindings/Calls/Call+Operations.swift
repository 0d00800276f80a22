import CLua
@_spi(Subclassing) import OpEngine
import Synchronization

extension Call {
    /// Runs `body` and turns its errors into errors of the caller: refusals of the engine, and values that cannot be sent.
    @inline(__always)
    @discardableResult
    func asCallError<Result>(_ body: () throws -> Result) throws(CallError) -> Result {
        do { return try body() } catch let error as CallError { throw error } catch let failure as Failure {
            throw CallError(failure)
        } catch {
            throw .message("\(error)")
        }
    }

    /// Reads an option. In an error, the option's name replaces the stack index.
    func option<T>(_ name: String, _ read: () throws(CallError) -> T) throws(CallError) -> T {
        do throws(CallError) { return try read() } catch {
            guard case .argument(_, let text) = error else { throw error }
            throw .message("\(name): \(text)")
        }
    }

    /// Assigns to the property whose name is at stack index 2. An error contains that name.
    @inline(__always)
    func assigning(_ body: () throws(CallError) -> Answer) throws(CallError) -> Answer {
        do throws(CallError) { return try body() } catch {
            return try option(string(at: 2) ?? "?") { () throws(CallError) in throw error }
        }
    }

    /// The maximum time of a wait in seconds; nil if the argument is missing.
    func timeout(at index: Int32) throws(CallError) -> Double? {
        isMissing(at: index) ? nil : try seconds(at: index)
    }

    /// Waits for operations and runs callbacks meanwhile. Returns false if the time ran out, or if the waiting operation was cancelled.
    ///
    /// - Throws: an error that names the operations that can never finish.
    func wait(for operations: [Operation], timeout: Double?) throws(CallError) -> Bool {
        try wait(for: operations, isEnough: { _ in false }, timeout: timeout)
    }

    /// The outcomes that `waitForAny` waits for.
    enum AwaitedOutcome: String, CaseIterable {
        /// Any.
        case finished
        case succeeded
        /// Also cancelled.
        case failed

        func includes(_ outcome: OperationOutcome?) -> Bool {
            guard let outcome else { return false }
            return self == .finished || (self == .succeeded) == (outcome == .succeeded)
        }
    }

    /// Waits until one of the operations has finished with the outcome, or all have finished. Returns the first one with the outcome. Nil if there is none,
    /// also because the time ran out or the waiting operation was cancelled.
    func waitForAny(_ operations: [Operation], timeout: Double?, outcome: AwaitedOutcome = .finished) throws(CallError) -> Operation? {
        guard !operations.isEmpty else { throw .argument(1, "an operation to wait for is missing") }
        _ = try wait(for: operations, isEnough: { outcome.includes($0.outcome) }, timeout: timeout)
        return operations.first { outcome.includes($0.outcome) }
    }

    /// Waits until the queue is empty. Also waits for operations that are added meanwhile. Returns false as `wait(for:timeout:)` does.
    func wait(for queue: OperationQueue, timeout: Double?) throws(CallError) -> Bool {
        let deadline = timeout.map { ContinuousClock.Instant.after($0) }
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
            // The completion blocks may add operations, and so may code that runs at the same time.
            guard try state.runDueCompletions() || !wait.isOver else { return true }
        }
    }

    /// Waits until a queue with a limit of pending operations may have room. Callbacks run meanwhile.
    ///
    /// - Throws: an error if no room can arise, or if this code runs in that queue and may occupy the room that it waits for.
    func waitForRoom(in queue: OperationQueue, for operation: Operation) throws(CallError) {
        let current = state.currentOperation
        if let current, current.queue === queue {
            let limit = queue.maxPendingOperationCount ?? 0
            throw .message(
                "\(operation.displayName) cannot be added: \(limit == 1 ? "1 operation waits" : "\(limit) operations wait") in \(queue.displayName), its maxPendingOperationCount, "
                    + "and \(current.displayName), which adds it, runs in that queue, so it would wait for itself; "
                    + "add it to another queue, or let the script add it")
        }
        defer { queue.stopWaking(state.inbox) }
        var hasRoom = false
        let outcome = try state.wait(deadline: nil) {
            hasRoom = queue.hasRoom(waking: state.inbox)
            return hasRoom
        }
        if case .stalled = outcome { throw .message("\(queue.staysFull(for: operation))") }
        if !hasRoom, let current, current.isCancelled {
            throw .message(
                "\(operation.displayName) was not added: \(queue.displayName) is full, and \(current.displayName), which waited for room, was cancelled"
            )
        }
    }

    private func waitsForItself(_ operation: Operation) -> CallError {
        .message("\(operation.displayName) waits for itself, which can never end")
    }

    /// Waits until all operations have finished, or one whose end `isEnough`.
    private func wait(
        for operations: [Operation], isEnough: @escaping @Sendable (Operation) -> Bool, timeout: Double?
    ) throws(CallError) -> Bool {
        let unfinished = operations.filter { !$0.isFinished }
        if unfinished.isEmpty || unfinished.count < operations.count && operations.contains(where: { $0.isFinished && isEnough($0) }) {
            try state.runDueCompletions()
            return true
        }
        if let current = state.currentOperation, unfinished.contains(where: { $0 === current || current.isMember(of: $0) }) {
            throw waitsForItself(current)
        }
        // Only the last step wakes the thread.
        let count = Countdown(unfinished.count, inbox: state.inbox)
        for operation in unfinished {
            operation.whenFinished(for: count) { [unowned operation] in count.step(by: isEnough(operation) ? unfinished.count : 1) }
        }
        defer {
            for operation in unfinished where !operation.isFinished { operation.forgetFinishHandlers(of: count) }
        }
        switch try state.wait(deadline: timeout.map { .after($0) }, until: { count.hasEnded }) {
        case .satisfied:
            if count.hasEnded { try state.runDueCompletions() }
            return count.hasEnded
        case .timedOut: return false
        case .stalled: throw .message(Stall.message(for: unfinished.filter { !$0.isFinished }))
        }
    }

    /// Pushes `main` and the elements of the table `arguments`. Returns the stack index of `main`, or 0 without one.
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

    /// Makes the handle of `operation` and puts it at `index`. The former function at `index` and the arguments after it become the body.
    func attachBody(at index: Int32, to operation: LuaOperation) throws(CallError) {
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in
                unsafe clua_attach_body(lua, pointer, ObjectKind.operation.rawValue, index, &failure)
            }
        } catch { throw CallError(error) }
    }
}

/// Wakes a thread when `step` has been called a given number of times.
private final class Countdown: Sendable {
    private let left: Atomic<Int>
    private let inbox: Inbox

    init(_ count: Int, inbox: Inbox) {
        left = Atomic(count)
        self.inbox = inbox
    }

    func step(by count: Int) {
        let (old, new) = left.wrappingSubtract(count, ordering: .acquiringAndReleasing)
        if old > 0 && new <= 0 { inbox.wake() }
    }

    var hasEnded: Bool { left.load(ordering: .acquiring) <= 0 }
}
