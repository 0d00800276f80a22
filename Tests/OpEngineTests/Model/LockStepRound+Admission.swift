import OpEngine

/// Keys, resources, rate limits, conditions, retries and back-pressure.
extension LockStepRound {
    static let allResources = ["gpu": 2, "memory": 7]
    private static let keys = ["a", "b", "c"]

    private func anyKeys() -> Set<String> { flip(3) ? Set(Self.keys.filter { _ in flip(2) }) : [Self.keys[number(Self.keys.count)]] }

    private func anyNeeds() -> [String: Int] {
        Self.allResources.sorted { $0.key < $1.key }.reduce(into: [:]) { needs, resource in
            if flip(2) { needs[resource.key] = 1 + number(resource.value) }
        }
    }

    /// Gives a new operation, every other time, something that it needs.
    func equip(_ one: Int) {
        let operation = operations[one]
        if flip(6) { setKeys(anyKeys(), of: one) }
        if flip(8) { setNeeds(anyNeeds(), of: one) }
        if flip(10) {
            let answer: ReferenceModel.Answer = flip(2) ? .holds : flip(2) ? .fails : .isUnknown
            model.operations[one].admission.condition = answer
            operation.addCondition(OperationPrecondition(name: "chance") { [weak self] _ in self?.asked(one) ?? .holds })
        }
        if flip(6) {
            let policy = RetryPolicy(attempts: 2 + number(2), delay: [0, 0.3][number(2)])
            operation.retryPolicy = policy
            (model.operations[one].admission.attempts, model.operations[one].admission.pause) = (policy.attempts, policy.delay)
        }
    }

    private func setKeys(_ keys: Set<String>, of one: Int) {
        tell("\(one) has the keys \(keys.sorted())")
        model.operations[one].admission.needs.keys = keys
        operations[one].exclusiveKeys = keys
    }

    private func setNeeds(_ needs: [String: Int], of one: Int) {
        tell("\(one) needs \(needs)")
        model.operations[one].admission.needs.resources = needs
        operations[one].needs = needs
    }

    func setResources(_ resources: [String: Int]) {
        tell("there is \(resources)")
        model.resources = resources
        simulation.engine.resources = resources
    }

    func changeNeeds(of one: Int) {
        if model.operations[one].inner != nil { return }
        if flip(2) { setKeys(anyKeys(), of: one) } else { setNeeds(anyNeeds(), of: one) }
    }

    func changeLimits() {
        let queue = anyQueue
        switch number(6) {
        case 0: setResources(Self.allResources.mapValues { $0 - number($0 + 1) })
        case 1: setResources(Self.allResources)
        case 2:
            let rate = flip(3) ? nil : RateLimit(count: 1 + number(4), seconds: [0.5, 1][number(2)], burst: 1 + number(3))
            tell("queue \(queue) has the rate \(rate.map { "\($0)" } ?? "of no limit")")
            model.setRate(rate, of: queue)
            queues[queue].rateLimit = rate
        case 3:
            let maximum = flip(2) ? nil : 1 + number(5)
            tell("queue \(queue) lets \(maximum ?? -1) wait")
            model.queues[queue].maximumPending = maximum
            queues[queue].maxPendingOperationCount = maximum
        default: simulation.advance(by: .milliseconds(100))
        }
    }

    // MARK: Steps of the engine

    private func asked(_ one: Int) -> OperationPrecondition.Answer {
        if isOver { return .holds }
        let answer = model.ask(one)
        tell("\(one) is asked, and answers \(answer)")
        switch answer {
        case .holds: return .holds
        case .fails: return .failed(reason: "chance")
        case .isUnknown:
            failing.insert(one)
            return .error(ModelFailure())
        }
    }

    /// Whether a body that may throw an error throws it this time.
    func mustFail(_ one: Int) -> Bool {
        if isOver { return true }
        if model.operations[one].admission.attempts > 1 && flip(2) { return false }
        attemptFails(one)
        return true
    }

    /// An attempt fails. If its `start` has not returned, the attempt ends when `start` returns.
    func attemptFails(_ one: Int) {
        failing.insert(one)
        guard model.isTriedAgain(one) else { return }
        if inStart.contains(one) { endedInStart.insert(one) } else { endAttempt(one) }
    }

    /// The body has returned, and `start` returns before anything else happens.
    func startReturns(_ one: Int) {
        inStart.remove(one)
        if endedInStart.remove(one) != nil, model.isTriedAgain(one) { endAttempt(one) }
    }

    private func endAttempt(_ one: Int) {
        tell("\(one) waits for its next attempt")
        failing.remove(one)
        model.endAttempt(one)
    }

    /// Nothing runs, so every operation that waits must say why.
    func checkReasons() {
        for one in operations.indices where model.isWaiting(one) && model.operations[one].queue != Self.mainQueue {
            let blockers = operations[one].whyNotRunning?.blockers ?? []
            let isExplained = blockers.contains { if case .notTaken = $0 { false } else { true } }
            if !isExplained { model.violate("\(one) does not run, and does not say why: \(blockers)") }
        }
    }

    // MARK: Back-pressure

    /// Tries to add operations to a queue that has no room for them. Returns false if there is room.
    func isRefusedAsFull(_ batch: [Int], _ queue: Int, _ isPossible: Bool, isBarrier: Bool = false) -> Bool {
        guard model.isFull(queue) else { return false }
        // The queue may give either of two reasons.
        guard isPossible else { return true }
        tell("queue \(queue) has no room for \(batch)")
        do {
            if try queues[queue].tryAddIfRoom(batch.map { operations[$0] }, isBarrier: isBarrier) {
                model.violate("the full queue \(queue) takes \(batch)")
            }
        } catch { model.violate("adding \(batch) to the full queue \(queue): \(error)") }
        return true
    }
}
