/// Finished work, keyed by everything that it depends on, in a database that several processes may use at once.
///
/// Nothing of it ever fails an operation: what cannot be read counts as not there, what cannot be written is done again in the next run, and
/// `Configuration.warn` hears of it once. All functions may be called from any thread.
public final class Store: Sendable {
    public struct Configuration: Sendable {
        /// The folder of the database. It is made when the first work is recorded.
        public var directory: String
        /// Paths below it are recorded relative to it, so that a project may move with its store. Nil: the folder that contains `directory`.
        public var base: String?
        /// What the database may take on the disk, in bytes. The work that was used least recently goes.
        public var limit = 2 << 30
        /// Whether nothing is written, and a step that would run is assumed to change its outputs.
        public var isDryRun = false
        /// Whether no work is found. What runs is recorded.
        public var runsAlways = false
        /// Called on any thread with a sentence, such as what was set aside and where it is now.
        public var warn: @Sendable (String) -> Void

        public init(directory: String, warn: @escaping @Sendable (String) -> Void) {
            self.directory = directory
            self.warn = warn
        }
    }

    public let configuration: Configuration

    /// Touches no file: a run without steps leaves no trace.
    public init(_ configuration: Configuration) {
        self.configuration = configuration
    }

    /// Says that a step is to run, and claims its outputs: until all steps that were planned have ended, no other step may have them.
    public func plan(_ step: Step) throws(StoreError) -> Work { Work(step, store: self) }

    /// Writes what is not yet written, and closes the database. The store finds and records nothing afterwards.
    public func close() {}
}
