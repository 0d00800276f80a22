import CMeasuring

/// What the rounds of one subject gave.
struct Sample {
    var values: [Double] = []

    var sorted: [Double] { values.sorted() }
    var median: Double {
        let sorted = sorted
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
    var least: Double { values.min() ?? 0 }
    var most: Double { values.max() ?? 0 }
}

/// What the rounds of one workload gave. In each round all subjects ran in turn, as often as the workload says; the median counts.
struct Outcome {
    let workload: Workload
    var ours = Sample()
    var peers: [(name: String, sample: Sample)] = []
    /// How long a line of memory took from one processor to another and back, in nanoseconds, before each round.
    var roundTrips = Sample()

    /// Ours divided by the peer's, round by round.
    func ratio(to peer: String) -> Sample? {
        guard let sample = peers.first(where: { $0.name == peer })?.sample else { return nil }
        return Sample(values: zip(ours.values, sample.values).map { $0 / $1 })
    }

    /// Whether the median reaches the goal; nil when there is nothing to compare with.
    func isMet(_ limit: Double?, of goal: Goal) -> Bool? {
        guard let limit, let value = goal.peer.map({ ratio(to: $0)?.median }) ?? ours.median else { return nil }
        return workload.moreIsBetter ? value >= limit : value <= limit
    }

    /// Whether all goals that must be reached are, of those that could be compared.
    var isMet: Bool { workload.goals.allSatisfy { isMet($0.must, of: $0) != false } }
}

extension Programs {
    /// Runs all subjects of a workload in turn, round by round.
    func measure(_ workload: Workload, rounds: Int) throws(Failure) -> Outcome {
        var outcome = Outcome(workload: workload)
        for round in 0..<rounds {
            outcome.roundTrips.values.append(cmeasuring_round_trip())
            let samples = try turns(of: workload)
            guard let ours = samples[0] else { throw Failure("\(workload.ours.name) has no workload \(workload.name)") }
            outcome.ours.values.append(ours.median)
            for (peer, sample) in zip(workload.peers, samples.dropFirst()) {
                guard let sample else { continue }
                if round == 0 { outcome.peers.append((peer.name, Sample())) }
                let index = outcome.peers.firstIndex { $0.name == peer.name }!
                outcome.peers[index].sample.values.append(sample.median)
            }
        }
        return outcome
    }

    /// What a round's runs of each subject gave, ours first; nil for who has no such workload.
    private func turns(of workload: Workload) throws(Failure) -> [Sample?] {
        let subjects = [workload.ours] + workload.peers
        var samples = [Sample?](repeating: Sample(), count: subjects.count)
        for _ in 0..<workload.turns {
            for (index, subject) in subjects.enumerated() where samples[index] != nil {
                if let value = try run(subject) { samples[index]?.values.append(value) } else { samples[index] = nil }
            }
        }
        return samples
    }
}
