/// A step that the store refuses.
public enum StoreError: Error, Hashable, Sendable {
    /// Two operations would write one file.
    case outputIsClaimed(output: String, by: String, and: String)
    /// One operation would read and write a file, so the operation would never be up to date.
    case outputIsInput(output: String, of: String)
    /// A path that is empty, or has a zero byte.
    case invalidPath(String, of: String)
}

extension StoreError: CustomStringConvertible {
    /// A sentence with the remedy.
    public var description: String {
        switch self {
        case .outputIsClaimed(let output, let first, let second):
            first == second
                ? "two operations '\(first)' would make '\(output)': give each of them an output of its own"
                : "'\(first)' and '\(second)' would both make '\(output)': give each of them an output of its own"
        case .outputIsInput(let output, let name):
            "'\(output)' is an input and an output of '\(name)': name it in one of the two lists, or write to another file"
        case .invalidPath(let path, let name):
            path.isEmpty ? "a path of '\(name)' is empty" : "a path of '\(name)' has a zero byte: '\(path)'"
        }
    }
}
