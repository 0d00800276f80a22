import OpEngine
import TestSupport
import Testing

/// Compares the engine with the reference model, using random operations and actions.
///
/// | variable | |
/// |---|---|
/// | `OPSCRIPT_MODEL_SEED` | the seed of the first round; each further round adds 1 |
/// | `OPSCRIPT_MODEL_ROUNDS` | the number of rounds |
/// | `OPSCRIPT_MODEL_OPERATIONS` | the number of operations in a round |
/// | `OPSCRIPT_MODEL_TOTAL` | the number of operations in all rounds, instead of the number of rounds |
/// | `OPSCRIPT_MODEL_TELL` | 1: prints what happens |
@Suite struct ModelTests {
    private struct Plan {
        let seeds: [UInt64]
        let operations: Int

        init(rounds: Int, operations: Int, share: Int) {
            let size = TestLength.number("OPSCRIPT_MODEL_OPERATIONS") ?? operations
            let first = TestLength.number("OPSCRIPT_MODEL_SEED") ?? Int.random(in: 0..<1_000_000_000)
            let total = TestLength.number("OPSCRIPT_MODEL_TOTAL").map { max(1, $0 / share / size) }
            let count = TestLength.number("OPSCRIPT_MODEL_ROUNDS") ?? total ?? rounds
            self.operations = size
            seeds = (0..<count).map { UInt64(first + $0) }
        }
    }

    private func replay(_ test: String, seed: UInt64, operations: Int) -> Comment {
        """
        seed \(seed); again: OPSCRIPT_MODEL_SEED=\(seed) OPSCRIPT_MODEL_ROUNDS=1 OPSCRIPT_MODEL_OPERATIONS=\(operations) \
        swift test --disable-xctest --filter ModelTests.\(test)
        """
    }

    @Test func inLockStepTheEngineDoesWhatTheModelSays() {
        let plan = Plan(rounds: 600, operations: 60, share: 2)
        for seed in plan.seeds {
            let violations = LockStepRound(seed: seed, operations: plan.operations).run()
            #expect(violations.isEmpty, replay("inLockStep", seed: seed, operations: plan.operations))
            if !violations.isEmpty { return }
        }
    }

    @Test func onRealThreadsEverythingHoldsThatMustHoldInEveryOrder() {
        let plan = Plan(rounds: 100, operations: 300, share: 2)
        for seed in plan.seeds {
            let violations = FreeRunningRound(seed: seed, operations: plan.operations).run()
            #expect(violations.isEmpty, replay("onRealThreads", seed: seed, operations: plan.operations))
            if !violations.isEmpty { return }
        }
    }

    @Test func aWrongExpectationOnRealThreadsIsNoticed() {
        #expect(!FreeRunningRound(seed: 1, operations: 300, flaw: true).run().isEmpty)
    }

    @Test func theSameSeedGivesTheSameOrderOfEvents() {
        for seed in [1, 2, 3] as [UInt64] {
            let (first, second) = (LockStepRound(seed: seed, operations: 100), LockStepRound(seed: seed, operations: 100))
            _ = first.run()
            _ = second.run()
            #expect(first.trace == second.trace && first.trace.count >= 100)
        }
        let other = LockStepRound(seed: 4, operations: 100)
        let one = LockStepRound(seed: 1, operations: 100)
        _ = other.run()
        _ = one.run()
        #expect(other.trace != one.trace)
    }

    /// Tests the test: the engine must contradict a model with one mistake.
    @Test(arguments: ReferenceModel.Flaw.allCases) func aWrongModelIsNoticed(flaw: ReferenceModel.Flaw) {
        let isNoticed = (0..<200 as Range<UInt64>).contains { !LockStepRound(seed: $0, operations: 40, flaw: flaw).run().isEmpty }
        #expect(isNoticed)
    }
}
