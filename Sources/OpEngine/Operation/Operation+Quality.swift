import Synchronization

extension Operation {
    /// How much the work matters. It decides on which threads the operation runs, not when: `utility` and `background` work runs on
    /// threads with the nice values 5 and 10, everything else on threads with the process's own.
    ///
    /// It wins over the quality of the queue; a higher one raises the whole queue while the operation is in it. A change takes effect
    /// if the operation has not started. `.default` says nothing.
    public var qualityOfService: QualityOfService {
        get { QualityRank(ofRequest: requestedQuality.load(ordering: .relaxed) & 0xF).quality }
        set { changeRequest { $0 & 0xF0 | QualityRank(newValue).value } }
    }

    /// How much processor time `main` gets beside others, from 0 to 1; 0.5 by default. Other values move to the nearest end.
    ///
    /// Below 0.25 the operation runs where `background` work does, below 0.5 where `utility` work does, unless it has a
    /// `qualityOfService`, which wins.
    @available(*, deprecated, message: "use qualityOfService")
    public var threadPriority: Double {
        get { lock.withLock { extras?.threadPriority ?? 0.5 } }
        set {
            let priority = newValue.isNaN ? 0.5 : min(max(newValue, 0), 1)
            lock.withLock { ensureExtras().threadPriority = priority }
            changeRequest { $0 & 0xF | QualityRank(threadPriority: priority).value << 4 }
        }
    }

    private func changeRequest(_ change: (UInt8) -> UInt8) {
        var old = requestedQuality.load(ordering: .relaxed)
        while true {
            let (exchanged, current) = requestedQuality.weakCompareExchange(expected: old, desired: change(old), ordering: .relaxed)
            if exchanged { break }
            old = current
        }
        // Through the state word, so that either this sees that it was linked, or who links it sees the change.
        if transition({ $0.has(State.linked) }) { withQueueCore { $0.requalify(self) } }
    }
}
