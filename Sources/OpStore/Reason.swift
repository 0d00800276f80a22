/// Why a step must run. Its `description` is a sentence without a full stop, such as "input 'a.h' changed".
public struct Reason: Hashable, Sendable {
    /// One thing that is not as it was.
    public enum Change: Hashable, Sendable {
        /// There is no earlier work with this identity.
        case neverRan
        /// A component has another digest.
        case changed(String)
        /// There is a component that there was not.
        case isNew(String)
        /// A component is missing.
        case isGone(String)
        case inputChanged(String)
        case inputIsMissing(String)
        /// A pattern matches another file, or an input that did not exist does.
        case inputIsNew(String)
        /// A path that is neither a file nor a folder is never up to date.
        case inputIsNoFile(String)
        case outputChanged(String)
        case outputIsMissing(String)
        /// In a dry run: another step would run, which makes this input.
        case inputWouldBeMade(String)
        /// There is work with this key, but no value.
        case valueIsMissing
        /// `Store.Configuration.runsAlways`.
        case runsAlways
    }

    /// What has changed, in the order of the step; never empty.
    public let changes: [Change]
}
