public import TestSupport

/// A clock that jumps from event to event, and what is to happen. The same seed gives the same events.
public final class Simulation: @unchecked Sendable {
    // Safety: one thread uses it.

    private struct Event {
        let time: Double
        /// Events of the same time happen in the order in which they were planned.
        let order: Int
        let body: () -> Void

        func isBefore(_ other: Event) -> Bool { time != other.time ? time < other.time : order < other.order }
    }

    /// Seconds since the beginning.
    public private(set) var now = 0.0
    /// The random numbers of everything here.
    public var random: SeededGenerator
    /// The number of events that have happened.
    public private(set) var eventCount = 0
    // A heap, the earliest first.
    private var events: [Event] = []
    private var orderCount = 0

    /// Makes a simulation.
    public init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// Plans a call.
    public func at(_ time: Double, _ body: @escaping () -> Void) {
        orderCount += 1
        events.append(Event(time: max(time, now), order: orderCount, body: body))
        var index = events.count - 1
        while index > 0, events[index].isBefore(events[(index - 1) / 2]) {
            events.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Plans a call after so many seconds.
    public func after(_ seconds: Double, _ body: @escaping () -> Void) { at(now + seconds, body) }

    /// Lets happen what is planned until `time`, or until `isOver` says so.
    public func run(until time: Double, isOver: () -> Bool = { false }) {
        while let first = events.first, first.time <= time, !isOver() {
            removeFirst()
            now = first.time
            eventCount += 1
            first.body()
        }
        if !isOver() { now = max(now, time) }
    }

    /// Forgets what is planned. It may refer to this.
    public func end() { events = [] }

    /// A random number of seconds.
    public func seconds(in range: ClosedRange<Double>) -> Double { .random(in: range, using: &random) }

    /// Whether something happens that has this probability.
    public func chance(_ probability: Double) -> Bool { .random(in: 0..<1, using: &random) < probability }

    private func removeFirst() {
        events.swapAt(0, events.count - 1)
        events.removeLast()
        var index = 0
        while true {
            var least = index
            if 2 * index + 1 < events.count, events[2 * index + 1].isBefore(events[least]) { least = 2 * index + 1 }
            if 2 * index + 2 < events.count, events[2 * index + 2].isBefore(events[least]) { least = 2 * index + 2 }
            if least == index { return }
            events.swapAt(index, least)
            index = least
        }
    }
}
