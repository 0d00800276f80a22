/// A step that cannot be.
public enum StoreError: Error, Hashable, Sendable {
    /// Two operations would write one file.
    case outputIsClaimed(output: String, by: String, and: String)
    /// A file would be read and written by one operation, which would then never be up to date.
    case outputIsInput(output: String, of: String)
    /// A path that is empty, or has a zero byte.
    case invalidPath(String, of: String)
}
