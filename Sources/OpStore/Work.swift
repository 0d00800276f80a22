/// The work of one operation, from the question whether it is done to what it has made. Of the threads that use it, one at a time may.
///
/// The order of calls is `lookUp`; after a miss `begin`, the body, and `finish` or `fail`. After that it may be looked up again, as for another attempt.
/// Releasing the object ends the work, too.
public final class Work: Sendable {
    /// Work that is there.
    public struct Hit: Sendable {
        /// What `finish` was given.
        public let value: [UInt8]?
    }

    public enum LookUp: Sendable {
        /// Nothing has changed: the outputs are there, and the body need not run.
        case hit(Hit)
        case miss(Reason)
    }

    public enum Finish: Hashable, Sendable {
        case recorded
        /// The work will be done again, and why: "input 'a.h' changed while it ran". Nil: the store cannot write, and has said so.
        case notRecorded(String?)
    }

    public let step: Step
    private let store: Store

    init(_ step: Step, store: Store) {
        self.step = step
        self.store = store
    }

    /// Looks for finished work. Reads the inputs and outputs that have changed since they were last read.
    ///
    /// - Parameter components: More components, which are known only now, such as results of dependencies. They are part of the key.
    public func lookUp(adding components: [Step.Component] = []) -> LookUp { .miss(Reason(changes: [.neverRan])) }

    /// Prepares for the body: looks at the inputs, and removes a depfile of an earlier run.
    ///
    /// If another process does the same work at this moment, it waits for that, in a blocking call. The result is then what the other process has
    /// made: the body need not run.
    public func begin() -> Hit? { nil }

    /// Records that the body has returned, with its value. A process that is killed after this function has returned need not do the work again.
    public func finish(value: UnsafeRawBufferPointer?) -> Finish { .notRecorded(nil) }

    /// Removes the outputs, unless the step keeps them: the body has failed, or was stopped.
    public func fail() {}

    /// Ends the work without a body: the step was skipped, or cancelled before it began.
    public func end() {}
}
