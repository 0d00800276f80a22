/// What a path led to at some moment.
struct FileState: Hashable {
    enum Kind: UInt8 {
        case absent, file
        /// A folder, a device, or a file that cannot be read or changes while it is read. Never equal to anything.
        case other
    }

    var kind: Kind
    /// Of the bytes of a file.
    var digest: Digest
    /// Of what the system knows about the path without reading it: its size, inode, mtime and ctime, and since when the system runs.
    var signature: Digest
    /// Whether whoever writes to the file from now on must change the signature. It is not so while the clock that files get their times
    /// from still shows the time of the last change.
    var isSettled: Bool

    static let absent = FileState(kind: .absent, digest: Digest(high: 0, low: 0), signature: Digest(high: 0, low: 0), isSettled: true)

    /// Whether both have the same contents.
    func hasContents(of other: FileState) -> Bool { kind == other.kind && digest == other.digest && kind != .other }
}
