import CNats
import Glibc

/// Gets one blob from whoever listens at a place.
struct DirectTransfer {
    enum Outcome {
        case blob(Blob)
        /// Whoever listens there does not have it.
        case missing
        case failed
    }

    let name: BlobName
    let place: DirectPlace
    let key: ClusterKey?
    /// Seconds to connect. A firewall that answers nothing costs as much.
    var secondsToConnect = 1.0
    /// Seconds for each record.
    var patience = DirectListener.patience

    /// - Parameter began: called with the connection, which may be ended then.
    func run(_ began: (DirectSocket) -> Void) -> Outcome {
        guard let connection = DirectSocket.connected(to: place, within: secondsToConnect, patience: patience) else { return .failed }
        began(connection)
        guard let greeting = connection.receive(DirectSecrets.magic.count + DirectSecrets.nonceCount),
            greeting.starts(with: DirectSecrets.magic)
        else { return .failed }
        let nonce = DirectSecrets.nonce()
        let secrets = [place.token, Array(greeting.dropFirst(DirectSecrets.magic.count)), nonce]
        guard let request = DirectSecrets.requests(key, secrets, seals: true)?.seal(name.request), connection.send(nonce + request),
            let answers = DirectSecrets.answers(key, secrets, seals: false), let answer = connection.receive(DirectSecrets.tagCount + 1),
            let found = answers.open(answer)
        else { return .failed }
        if found == [0] { return .missing }
        guard let memory = BlobMemory(count: name.count), let naming = unsafe cnats_naming_begin() else { return .failed }
        let isReceived = unsafe receive(memory, from: connection, openedBy: key == nil ? nil : answers, naming)
        let digest = unsafe [UInt8](unsafeUninitializedCapacity: BlobName.digestCount) { digest, count in
            unsafe cnats_naming_end(naming, digest.baseAddress)
            count = BlobName.digestCount
        }
        return isReceived && digest == name.digest ? .blob(Blob(memory, name)) : .failed
    }

    /// Each record is digested while it is in the processor's cache, and while the next ones come.
    private func receive(
        _ memory: BlobMemory, from connection: DirectSocket, openedBy records: DirectRecords?, _ naming: OpaquePointer
    ) -> Bool {
        for start in stride(from: 0, to: name.count, by: DirectSecrets.recordCount) {
            let range = start..<min(start + DirectSecrets.recordCount, name.count)
            let tag = records == nil ? [] : connection.receive(DirectSecrets.tagCount)
            guard let tag else { return false }
            let isThere = unsafe memory.fill(range) { record in
                guard unsafe connection.receive(record), unsafe records?.open(record, tag: tag) ?? true else { return false }
                unsafe cnats_naming_add(naming, record.baseAddress, record.count)
                return true
            }
            if !isThere { return false }
            if start == 0 { memory.prepare() }
        }
        return true
    }
}
