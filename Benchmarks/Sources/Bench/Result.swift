import CMeasuring

/// The values of one subject, one for each round.
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

/// The result of one workload. Each round runs all subjects in turn, as often as the workload says, and keeps the median.
struct Outcome {
    let workload: Workload
    var ours = Sample()
    var peers: [(name: String, sample: Sample)] = []
    /// The round-trip time of a cache line between two processors, in nanoseconds, measured before each round.
    var roundTrips = Sample()

    /// The ratio of our value to the peer's, for each round.
    func ratio(to peer: String) -> Sample? {
        guard let sample = peers.first(where: { $0.name == peer })?.sample else { return nil }
        return Sample(values: zip(ours.values, sample.values).map { $0 / $1 })
    }

    /// Whether the median reaches the goal; nil when there is nothing to compare with.
    func isMet(_ limit: Double?, of goal: Goal) -> Bool? {
        guard let limit, let value = goal.peer.map({ ratio(to: $0)?.median }) ?? ours.median else { return nil }
        return workload.moreIsBetter ? value >= limit : value <= limit
    }

    /// Whether all mandatory goals that could be compared are reached.
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

    /// The values of each subject in one round, ours first; nil for a subject that does not have the workload.
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
