import CLua
import OpEngine
import OpPlatform
import Synchronization

/// A call into a state that can be stopped: one that a task awaits, or that belongs to a group.
final class StoppableCall: Sendable {
    /// The reasons why a call ends early.
    enum Stop: UInt8 {
        case none, cancelled, closed
    }

    /// The method of `Runtime`, for messages.
    let name: StaticString
    private let stop = Atomic<UInt8>(Stop.none.rawValue)
    /// The call around this one. The caller of the outer call keeps it alive.
    // Safety: only the thread that makes the calls uses it.
    @safe fileprivate nonisolated(unsafe) unowned(unsafe) var outer: StoppableCall?

    init(_ name: StaticString) { self.name = name }

    /// The call in C.
    var body: UnsafeRawPointer? { unsafe clua_body_of_call(Unmanaged.passUnretained(self).toOpaque()) }

    /// Whether this call or one around it has to stop. Read this on the thread that makes the call, or before the call is made.
    var isStopped: Bool { stop.load(ordering: .acquiring) != Stop.none.rawValue || (outer?.isStopped ?? false) }

    /// Records a reason, unless an earlier one was recorded. Returns whether it recorded the reason.
    @discardableResult
    func stop(because reason: Stop) -> Bool {
        stop.compareExchange(expected: Stop.none.rawValue, desired: reason.rawValue, ordering: .acquiringAndReleasing).exchanged
    }

    /// The error that the task catches, if the call was stopped.
    var stopError: any Error {
        stop.load(ordering: .acquiring) == Stop.closed.rawValue ? LuaError.closed : CancellationError()
    }
}

/// The calls that tasks await. One thread makes the calls in the order of their arrival, and ends when no call is left. So no thread of an
/// actor waits for a script.
final class AwaitedCalls: Sendable {
    private struct Waiting {
        let call: StoppableCall
        /// Makes the call and resumes its task. On the thread of the calls.
        let make: @Sendable (LuaState) -> Void
        /// Resumes the task with an error.
        let refuse: @Sendable (any Error) -> Void
    }

    private struct State {
        var waiting: [Waiting] = []
        /// The call that is inside the main state.
        var inside: StoppableCall?
        var hasThread = false
        /// Nil before `open` and after `close`.
        var main: LuaState?
    }

    private let state = Guarded(State())

    func open(for main: LuaState) { state.withLock { $0.main = main } }

    /// Adds a call whose task is suspended until `make` or `refuse` resumes it.
    func add(_ call: StoppableCall, make: @escaping @Sendable (LuaState) -> Void, refuse: @escaping @Sendable (any Error) -> Void) {
        let (refusal, startsThread) = state.withLock { state -> ((any Error)?, Bool) in
            if call.isStopped { return (call.stopError, false) }
            if state.main == nil { return (LuaError.closed, false) }
            state.waiting.append(Waiting(call: call, make: make, refuse: refuse))
            return (nil, !exchange(&state.hasThread, with: true))
        }
        if let refusal { return refuse(refusal) }
        if startsThread {
            startThread {
                self.makeCalls()
            } orElse: {
                self.refuseCalls()
            }
        }
    }

    private func refuseCalls() {
        let refused = state.withLock { state in
            state.hasThread = false
            return exchange(&state.waiting, with: [])
        }
        for waiting in refused { waiting.refuse(LuaError(message: "the system cannot start a thread for the call")) }
    }

    private func makeCalls() {
        while true {
            let next = state.withLock { state -> (Waiting, LuaState)? in
                state.hasThread = !state.waiting.isEmpty
                guard state.hasThread, let main = state.main else { return nil }
                return (state.waiting.removeFirst(), main)
            }
            guard let (waiting, main) = next else { return }
            waiting.make(main)
        }
    }

    /// Records that the call has entered the main state. Returns false if the calls were closed meanwhile.
    func begin(_ call: StoppableCall) -> Bool {
        state.withLock { state in
            if state.main != nil { state.inside = call }
            return state.main != nil
        }
    }

    /// Records that the call will leave the main state.
    func end() { state.withLock { $0.inside = nil } }

    /// Stops a call because its task was cancelled. From any thread, at any time.
    func cancel(_ call: StoppableCall) {
        call.stop(because: .cancelled)
        let waiting = state.withLock { state -> Waiting? in
            // The lock keeps the call, and so the state, from ending.
            if state.inside === call { state.main?.requestStop(of: call) }
            return state.waiting.firstIndex { $0.call === call }.map { state.waiting.remove(at: $0) }
        }
        waiting?.refuse(call.stopError)
    }

    /// Stops all calls, and refuses later ones.
    func close() {
        let (waiting, main) = state.withLock { state in
            if let call = state.inside {
                call.stop(because: .closed)
                state.main?.requestStop(of: call)
            }
            return (exchange(&state.waiting, with: []), state.main.take())
        }
        withExtendedLifetime(main) {}
        for waiting in waiting { waiting.refuse(LuaError.closed) }
    }
}

extension LuaState {
    /// Runs `body` as a call of the host that `requestStop` can stop.
    func run<Result, Cause: Error>(_ call: StoppableCall, _ body: () throws(Cause) -> Result) throws(Cause) -> Result {
        let outer = stoppableCall
        call.outer = outer
        stoppableCall = call
        defer {
            stoppableCall = outer
            call.outer = nil
            // A request to stop the outer call has reached this call, so repeat it.
            if let outer, outer.isStopped { requestStop(of: outer) }
        }
        return try unsafe stoppable(as: call.body) { () throws(Cause) in
            // The request may have arrived before this call could be stopped.
            if call.isStopped { requestStop(of: call) }
            return try body()
        }
    }

    /// Stops `call` if it runs here, and wakes it if it waits. From any thread. The caller must keep the call from ending.
    func requestStop(of call: StoppableCall) {
        unsafe clua_request_stop(main, call.body, CLUA_STOP_INTERRUPTED)
        link?.requestStopOfCallback(.interrupted, isUrgent: false)
        inbox.wake()
    }

    /// Repeats the request to stop `call`, which may not have noticed it.
    func repeatStop(of call: StoppableCall) {
        link?.requestStopOfCallback(.interrupted, isUrgent: false)
        _ = unsafe clua_repeat_stop(main, call.body)
    }
}
