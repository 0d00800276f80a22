import OpPlatform
import Synchronization

extension Operation {
    var requestedQualityOfService: QualityOfService {
        get { QualityRank(ofRequest: requestedQuality.load(ordering: .relaxed) & 0xF).quality }
        set { changeRequest { $0 & 0xF0 | QualityRank(newValue).value } }
    }

    var requestedThreadPriority: Double {
        get { lock.withLock { rareExtras?.threadPriority ?? 0.5 } }
        set {
            let priority = newValue.isNaN ? 0.5 : min(max(newValue, 0), 1)
            lock.withLock { ensureRareExtras().threadPriority = priority }
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
        // Reads `linked` with a read-modify-write of the state word. Either this thread sees that the operation is linked, or the linking
        // thread sees the new request.
        if transition({ $0.has(State.linked) }) { withQueueCore { $0.requalify(self) } }
        memberQueue?.settingsHaveChanged()
    }
}
