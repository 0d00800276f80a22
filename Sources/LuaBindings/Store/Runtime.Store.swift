public import OpEngine

extension Runtime {
    /// Keeps finished work of a runtime, so that operations with `memoize`, `inputs` or `outputs` need not do it again, in this run or in a
    /// later one.
    ///
    /// ```swift
    /// var configuration = Runtime.Configuration()
    /// configuration.store = Runtime.Store(directory: "/var/cache/app")
    /// ```
    ///
    /// Several processes may use a folder at once. Any user who may write there decides what operations return, so the
    /// folder must belong to the host.
    public struct Store: Sendable {
        /// The use of finished work.
        public enum Mode: Sendable, Hashable {
            /// Finished work does not run again.
            case normal
            /// No operation that asks the store runs, and nothing is recorded. An operation that would run finishes without results.
            /// Operations that do not ask the store run.
            case dryRun
            /// All operations run, and their work is recorded.
            case alwaysRun
        }

        /// The folder of the database. The first recorded work makes the folder.
        public var directory: String
        /// The most that the database may take on the disk, in bytes. The store deletes the work that was used least recently.
        public var limit = 2 << 30
        /// The use of finished work.
        public var mode = Mode.normal
        /// Receives the decision about each operation that asks the store, on the thread that runs the operation.
        public var explain: (@Sendable (Explanation) -> Void)?

        /// Makes the settings for a store in this folder.
        public init(directory: String) { self.directory = directory }
    }

    /// The store's decision about an operation.
    public struct Explanation: Sendable {
        /// The fate of the operation.
        public enum Decision: Sendable, Hashable {
            /// The store has the operation's work, so the body does not run.
            case isSkipped
            /// The body runs, or would run in a dry run, for this reason: `input 'a.h' changed`.
            case runs(String)
            /// The body has run, and will run again the next time, for this reason: `its results contain a function, which cannot be stored`.
            case isNotRecorded(String)
        }

        /// The operation.
        public let operation: Operation
        /// The operation's label: its name, or else its first output, or the place of its function.
        public let name: String
        /// The decision.
        public let decision: Decision
    }
}
