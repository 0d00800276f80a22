import TestLimits
import TestSupport
import Testing

@testable import OpPlatform

@Suite(.endsWithin(seconds: 60)) struct TimersTests {
    @Test("Functions are called in the order of their moments, and those of one moment in the order in which they were set")
    func functionsAreCalledInOrder() {
        let seed = UInt64.random(in: 1...1 << 32)
        var random = SeededGenerator(seed: seed)
        let start = ContinuousClock.now
        let timers = Timers(isManual: true), called = Guarded<[Int]>([])
        var expected: [(moment: Int, number: Int)] = []
        var numbers: [Timers.Number] = []
        for number in 0..<500 {
            let moment = Int.random(in: 0..<100, using: &random)
            numbers.append(timers.set(at: start + .seconds(moment)) { called.withLock { $0.append(number) } })
            expected.append((moment, number))
        }
        for number in (0..<500).shuffled(using: &random).prefix(200) {
            #expect(timers.cancel(numbers[number]) && !timers.cancel(numbers[number]), "seed \(seed)")
            expected.removeAll { $0.number == number }
        }
        expected.sort { $0 < $1 }
        #expect(timers.next == expected.first.map { start + .seconds($0.moment) }, "seed \(seed)")
        #expect(timers.fire(at: start + .seconds(50)), "seed \(seed)")
        #expect(called.withLock { $0 } == expected.filter { $0.moment <= 50 }.map(\.number), "seed \(seed)")
        timers.fire(at: start + .seconds(100))
        #expect(called.withLock { $0 } == expected.map(\.number), "seed \(seed)")
        #expect(!timers.fire(at: start + .seconds(100)) && timers.next == nil)
    }

    @Test("The thread calls a function that is set before the next one, and after the thread had nothing to wait for")
    func theThreadWaitsForTheNextFunction() {
        let timers = Timers()
        for _ in 0..<20 {
            let called = Awaited<Int>()
            timers.set(at: .now + .seconds(3600)) { called.give(1) }
            timers.set(at: .now) { called.give(2) }
            #expect(called.get() == 2)
        }
        timers.end()
        let others = Timers()
        for _ in 0..<20 {
            let called = Awaited<Int>()
            others.set(at: .now) { called.give(1) }
            #expect(called.get() == 1)
        }
    }

    @Test("After the end no function is called")
    func nothingIsCalledAfterTheEnd() {
        let timers = Timers(isManual: true), called = Guarded(false)
        timers.set(at: .now) { called.withLock { $0 = true } }
        timers.end()
        timers.set(at: .now) { called.withLock { $0 = true } }
        #expect(!timers.fire(at: .now) && timers.next == nil && !called.withLock { $0 })
    }
}
