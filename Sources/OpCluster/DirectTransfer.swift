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
    var secondsToConnect = DirectConnection.secondsToConnect
    /// Seconds for each record.
    var patience = DirectListener.patience

    /// - Parameter began: called with the socket, which may be ended then.
    func run(_ began: (DirectSocket) -> Void) -> Outcome {
        guard let connection = DirectConnection(to: place, key: key, for: .blob(name), within: secondsToConnect, patience: patience, began)
        else { return .failed }
        if !connection.isGranted { return .missing }
        guard let memory = BlobMemory(count: name.count), let naming = unsafe cnats_naming_begin() else { return .failed }
        let isReceived = unsafe receive(memory, from: connection.socket, openedBy: key == nil ? nil : connection.answers, naming)
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
