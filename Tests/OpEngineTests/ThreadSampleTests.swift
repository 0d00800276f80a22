import Testing

@testable import OpEngine

/// The conclusions that the engine draws from samples of threads.
@Suite struct ThreadSampleTests {
    private let start = ContinuousClock.now

    /// The sample of a thread that was read once a millisecond. A reading is the processor time in microseconds and the state.
    private func sample(_ readings: [(time: Int64?, state: Character?)]) -> ThreadSample {
        var sample = ThreadSample()
        for (index, reading) in readings.enumerated() {
            sample.update(processorTime: reading.time.map { $0 * 1000 }, at: start + .milliseconds(index)) { reading.state?.asciiValue }
        }
        return sample
    }

    private func blocked(_ samples: [ThreadSample], for duration: Duration = .zero, at milliseconds: Int) -> [Int] {
        ThreadSample.blocked(samples, for: duration, at: start + .milliseconds(milliseconds))
    }

    @Test(arguments: ["S", "D"] as [Character])
    func oneThatSleepsAndHasNotRunIsBlocked(state: Character) {
        let sleeper = sample([(50, state), (50, state), (50, state)])
        #expect(sleeper.kind == .sleeps && blocked([sleeper], at: 2) == [0])
        #expect(blocked([sleeper], for: .milliseconds(2), at: 2) == [0] && blocked([sleeper], for: .milliseconds(3), at: 2) == [])
    }

    @Test func oneThatHasRunSinceTheLastSampleIsNotBlocked() {
        let sleeper = sample([(50, "S"), (50, "S"), (60, "S")])
        #expect(sleeper.kind == .runs && blocked([sleeper], at: 2) == [])
    }

    @Test func oneThatNeedsMoreThanABeginningComputes() {
        #expect(sample([(100, "R"), (400, "R")]).kind == .runs)
        #expect(sample([(100, "R"), (600, "R")]).kind == .computes)
        #expect(sample([(600, "R"), (600, "S"), (900, "R")]).kind == .runs)
    }

    @Test func oneOfWhichNothingIsKnownIsNotBlocked() {
        for unknown in [sample([(nil, "S"), (nil, "S")]), sample([(50, nil), (50, nil)]), sample([(50, "Z"), (50, "Z")])] {
            #expect(unknown.kind == .unknown && blocked([unknown], at: 1) == [])
        }
    }

    @Test func oneThatHasJustWaitedForAProgramIsNotBlocked() {
        var sleeper = sample([(50, "S")])
        sleeper.waitsInPlace(at: start)
        for milliseconds in 1...2 {
            sleeper.update(processorTime: 50_000, at: start + .milliseconds(milliseconds)) { Character("S").asciiValue }
        }
        #expect(sleeper.kind == .sleeps && blocked([sleeper], at: 999) == [] && blocked([sleeper], at: 1000) == [0])
    }

    /// The sleeping thread may wait for a lock that the other thread holds.
    @Test func oneThatSleepsWhileAnotherHasNoTurnIsNotBlocked() {
        let sleeper = sample([(50, "S"), (50, "S"), (50, "S")])
        let hasNoTurn = sample([(90, "R"), (90, "R"), (90, "R")])
        #expect(hasNoTurn.kind == .waitsForProcessor && blocked([sleeper, hasNoTurn], at: 2) == [])
        let hadATurn = sample([(90, "R"), (91, "R"), (91, "R")])
        #expect(hadATurn.kind == .waitsForProcessor && blocked([sleeper, hadATurn], at: 2) == [0])
        let runs = sample([(90, "R"), (90, "R"), (95, "R")])
        #expect(blocked([runs, sleeper], at: 2) == [1])
    }
}
