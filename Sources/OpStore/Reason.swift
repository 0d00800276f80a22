/// Why a step must run.
public struct Reason: Hashable, Sendable {
    /// One difference.
    public enum Change: Hashable, Sendable {
        /// The store has no earlier work with this identity.
        case neverRan
        /// A component has another digest.
        case changed(String)
        /// A function has another digest. The number is that of the first line that differs.
        case changedInLine(String, Int)
        /// A component that the earlier work did not have.
        case isNew(String)
        /// A component is missing.
        case isGone(String)
        case inputChanged(String)
        case inputIsMissing(String)
        /// A pattern matches another file, or an input exists that did not exist before.
        case inputIsNew(String)
        /// A folder, a device, or a file that cannot be read.
        case inputIsNoFile(String)
        case outputChanged(String)
        case outputIsMissing(String)
        /// In a dry run: the step that makes this input would run.
        case inputWouldBeMade(String)
        /// The work is recorded, but not its value.
        case valueIsMissing
        /// `Store.Configuration.runsAlways`.
        case runsAlways
    }

    /// The changes, in the order of the step; never empty.
    public let changes: [Change]

    /// Creates a reason of at least one change.
    public init(_ changes: [Change]) { self.changes = changes }
}

extension Reason: CustomStringConvertible {
    /// A sentence without a full stop, such as "input 'a.h' changed"; three changes at most, and the number of the others.
    public var description: String {
        let shown = changes.prefix(3).map(\.description).joined(separator: ", ")
        return changes.count > 3 ? shown + " and \(changes.count - 3) more" : shown
    }
}

extension Reason.Change: CustomStringConvertible {
    /// A part of the sentence: "input 'a.h' changed".
    public var description: String {
        switch self {
        case .neverRan: "never ran"
        case .changed(let label): label + " changed"
        case .changedInLine(let label, let line): "\(label) changed in line \(line)"
        case .isNew(let label): label + " is new"
        case .isGone(let label): label + " is gone"
        case .inputChanged(let path): "input '\(path)' changed"
        case .inputIsMissing(let path): "input '\(path)' is missing"
        case .inputIsNew(let path): "input '\(path)' is new"
        case .inputIsNoFile(let path): "input '\(path)' is not a file that can be read"
        case .outputChanged(let path): "output '\(path)' changed"
        case .outputIsMissing(let path): "output '\(path)' is missing"
        case .inputWouldBeMade(let path): "input '\(path)' would be made again"
        case .valueIsMissing: "its value is not in the store"
        case .runsAlways: "all steps run"
        }
    }
}
