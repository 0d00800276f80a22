/// The file at a path, at some moment.
struct FileState: Hashable {
    enum Kind: UInt8 {
        case absent, file
        /// A folder, a device, or a file that cannot be read or changes while it is read. Never equal to anything.
        case other
    }

    var kind: Kind
    /// The digest of the bytes of a file.
    var digest: Digest
    /// The digest of the system's facts about the path: its kind, size, inode, mtime and ctime, and the identifier of the system's start.
    var signature: Digest
    /// Whether each later write to the file changes the signature. A write may leave the signature as it is while the clock of the file system
    /// still shows the time of the last change.
    var isSettled: Bool

    static let absent = FileState(kind: .absent, digest: Digest(high: 0, low: 0), signature: Digest(high: 0, low: 0), isSettled: true)

    /// Whether both have the same contents.
    func hasContents(of other: FileState) -> Bool { kind == other.kind && digest == other.digest && kind != .other }
}
