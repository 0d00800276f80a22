import OpEngine
import OpPlatform
import Synchronization

/// A script's timer. The function stays in the timer's handle, in the state that set the timer, and runs there.
///
/// A pending timer can still cause events, so the runtime reports no wait as one that can never end.
final class ScriptTimer: EventSource {
    /// Seconds until the timer fires, and between its calls if it repeats.
    let interval: Double
    let repeats: Bool
    private let state: LuaState
    private let group: Runtime.Group?
    private let budget: RunBudget?
    private let charge: Charge?
    private let mutable = Guarded(Mutable())
    /// Whether the timer will not fire any more.
    private let hasEnded = Atomic<Bool>(false)
    /// Whether a call was posted and has not returned. The timer skips calls that are due meanwhile.
    private let isCalling = Atomic<Bool>(false)

    private struct Mutable {
        var timer: IOTimer?
    }

    init(_ interval: Double, repeats: Bool, in state: LuaState) {
        self.interval = interval
        self.repeats = repeats
        self.state = state
        group = unsafe state.group?.takeUnretainedValue()
        budget = state.budget
        charge = state.core.ledger.charge(.timer)
    }

    /// Starts the timer. On the state's thread, after `LuaState.expect`.
    func start() {
        state.core.engine.hold()
        let timer = state.core.io.after(interval, repeating: repeats) { self.fire() }
        mutable.withLock { $0.timer = timer }
        group?.add(self)
    }

    var isPending: Bool { !hasEnded.load(ordering: .relaxed) }

    /// On the I/O thread.
    private func fire() {
        if state.core.io.isEnding || isCalling.exchange(true, ordering: .acquiringAndReleasing) { return }
        state.post { self.call() }
    }

    private func call() {
        if repeats {
            if isPending { unsafe state.runCallback(of: self, for: group, keeping: true, by: budget, named: "a timer's function") }
            if budget?.stopReason != nil { cancel(in: state) }
            isCalling.store(false, ordering: .releasing)
        } else if end() {
            unsafe state.runCallback(of: self, for: group, by: budget, named: "a timer's function")
            state.forget(self)
        }
    }

    /// Stops the timer. From any thread; `current` is the state of the calling thread, if it has one.
    func cancel(in current: LuaState?) {
        guard end() else { return }
        if current === state { state.forget(self) } else { state.post { self.state.forget(self) } }
    }

    func abandon() { _ = end() }

    /// Returns false if the timer had already ended.
    private func end() -> Bool {
        if hasEnded.exchange(true, ordering: .acquiringAndReleasing) { return false }
        mutable.withLock { $0.timer }?.cancel()
        group?.remove(self)
        state.core.usage.returnTimer()
        state.core.engine.release()
        return true
    }
}
