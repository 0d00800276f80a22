/// Calls functions at their moments, on one thread that exists while a function waits.
public final class Timers: Sendable {
    /// Identifies a timer.
    public typealias Number = UInt64

    private struct Timer {
        let moment: ContinuousClock.Instant
        let number: Number
        let body: @Sendable () -> Void

        static func < (a: Timer, b: Timer) -> Bool { (a.moment, a.number) < (b.moment, b.number) }
    }

    private struct State {
        /// A binary heap, the earliest first.
        var heap: [Timer] = []
        var lastNumber: Number = 0
        var hasThread: Bool
        var hasEnded = false

        /// Moves the timer at `index` to its place in the heap.
        mutating func move(_ index: Int) {
            var index = index
            while index > 0, heap[index] < heap[(index - 1) / 2] {
                heap.swapAt(index, (index - 1) / 2)
                index = (index - 1) / 2
            }
            while true {
                var least = index
                for child in 2 * index + 1...2 * index + 2 where child < heap.count && heap[child] < heap[least] { least = child }
                if least == index { return }
                heap.swapAt(index, least)
                index = least
            }
        }

        mutating func remove(at index: Int) -> Timer {
            heap.swapAt(index, heap.count - 1)
            let removed = heap.removeLast()
            if index < heap.count { move(index) }
            return removed
        }
    }

    private let state: Guarded<State>
    private let parker = Parker()

    /// Makes timers without a thread.
    ///
    /// - Parameter isManual: whether only `fire` calls the functions, for simulations.
    public init(isManual: Bool = false) { state = Guarded(State(hasThread: isManual)) }

    /// Calls `body` at a moment, on a thread that `body` must not block. Functions of the same moment are called in the order in which they
    /// were set. Traps if the system cannot start a thread.
    @discardableResult
    public func set(at moment: ContinuousClock.Instant, _ body: @escaping @Sendable () -> Void) -> Number {
        let (number, isNext, startsThread) = state.withLock { state -> (Number, Bool, Bool) in
            state.lastNumber += 1
            if state.hasEnded { return (state.lastNumber, false, false) }
            state.heap.append(Timer(moment: moment, number: state.lastNumber, body: body))
            state.move(state.heap.count - 1)
            return (state.lastNumber, state.heap[0].number == state.lastNumber, !exchange(&state.hasThread, with: true))
        }
        if startsThread { startThread { self.run() } } else if isNext { parker.unpark() }
        return number
    }

    /// Removes a timer. Returns false if its function was called or is being called, or if the timer was removed before. O(timers).
    public func cancel(_ number: Number) -> Bool {
        let removed = state.withLock { state in
            state.heap.firstIndex { $0.number == number }.map { state.remove(at: $0) }
        }
        if removed != nil { parker.unpark() }
        return removed != nil
    }

    /// Removes all timers, and ignores those that are set later.
    public func end() {
        let removed = state.withLock { state in
            state.hasEnded = true
            return exchange(&state.heap, with: [])
        }
        withExtendedLifetime(removed) { parker.unpark() }
    }

    /// The moment of the next timer.
    public var next: ContinuousClock.Instant? { state.withLock { $0.heap.first?.moment } }

    /// Calls the functions whose moment is not later than `now`. Returns false if there are none.
    @discardableResult
    public func fire(at now: ContinuousClock.Instant) -> Bool {
        var hasFired = false
        while let timer = state.withLock({ state in state.heap.isEmpty || state.heap[0].moment > now ? nil : state.remove(at: 0) }) {
            timer.body()
            hasFired = true
        }
        return hasFired
    }

    private func run() {
        while true {
            fire(at: .now)
            let next = state.withLock { state in
                state.hasThread = !state.heap.isEmpty
                return state.heap.first?.moment
            }
            guard let next else { return }
            _ = parker.park(until: next)
        }
    }
}
