@_spi(Locking) import OpEngine
import Synchronization

/// A timer of a script. The function stays in the timer's handle in the state that set it, and runs there.
///
/// While it is pending, something may still happen: no wait is reported as one that can never end.
final class ScriptTimer: EventSource {
    /// Seconds until it fires.
    let interval: Double
    let repeats: Bool
    private let state: LuaState
    private let mutable = Guarded(Mutable())
    /// It will not fire any more.
    private let hasEnded = Atomic<Bool>(false)
    /// A call is on its way, or going on: what fires meanwhile is passed over.
    private let isCalling = Atomic<Bool>(false)

    private struct Mutable {
        var timer: IOTimer?
    }

    init(_ interval: Double, repeats: Bool, in state: LuaState) {
        self.interval = interval
        self.repeats = repeats
        self.state = state
    }

    /// On the state's thread, which expects it.
    func start() {
        state.core.engine.hold()
        let timer = state.core.io.after(interval, repeating: repeats) { self.fire() }
        mutable.withLock { $0.timer = timer }
    }

    var isPending: Bool { !hasEnded.load(ordering: .relaxed) }

    /// On the thread of the timers.
    private func fire() {
        if state.core.io.isEnding || isCalling.exchange(true, ordering: .acquiringAndReleasing) { return }
        state.post { self.call() }
    }

    private func call() {
        if repeats {
            if isPending { state.runCallback(of: self, keeping: true, named: "a timer's function") }
            isCalling.store(false, ordering: .releasing)
        } else if end() {
            state.runCallback(of: self, named: "a timer's function")
            state.forget(self)
        }
    }

    /// It fires no more. From any thread; `current` is the state that asks.
    func cancel(in current: LuaState) {
        guard end() else { return }
        if current === state { state.forget(self) } else { state.post { self.state.forget(self) } }
    }

    func abandon() { _ = end() }

    /// False when it had ended before.
    private func end() -> Bool {
        if hasEnded.exchange(true, ordering: .acquiringAndReleasing) { return false }
        mutable.withLock { $0.timer }?.cancel()
        state.core.engine.release()
        return true
    }
}
