import OpEngine
import OpPlatform
import OpStore

/// An operation that asks the store whether its work is done, before its body runs.
final class StoredStep: Sendable {
    let options: StepOptions
    private let state = Guarded(State())

    private struct State {
        var name = ""
        var work: Work?
        var beginning: Beginning?
        var isSkipped = false
        var isAssumedToRun = false
        var reason: String?
    }

    /// The components of the operation's key, and the values that scripts had stored in the operation, before its first attempt. Values that an
    /// attempt stores do not change the key of the next attempt.
    struct Beginning {
        let components: [Step.Component]
        let storage: [String: Parcel]
    }

    init(_ options: StepOptions) { self.options = options }

    /// Whether the body did not run, because the store had its results.
    var isSkipped: Bool { state.withLock { $0.isSkipped } }
    /// Whether the body has not run because this is a dry run.
    var isAssumedToRun: Bool { state.withLock { $0.isAssumedToRun } }
    /// The reason why the body has run, or would run in a dry run; nil if it was skipped, or the store was not asked yet.
    var reason: String? { state.withLock { $0.reason } }
    var name: String { state.withLock { $0.name } }

    /// The key and the values before the first attempt; nil until that begins.
    var beginning: Beginning? {
        get { state.withLock { $0.beginning } }
        set { state.withLock { $0.beginning = newValue } }
    }

    func skip() {
        state.withLock { state in
            state.isSkipped = true
            state.reason = nil
        }
    }

    func run(because reason: String, isDry: Bool) {
        state.withLock { state in
            state.reason = reason
            state.isAssumedToRun = isDry
        }
    }

    /// Claims the outputs, unless this operation has claimed them.
    ///
    /// - Throws: an error if another operation has them, or a path is wrong.
    func plan(for operation: LuaOperation, in store: WorkStore) throws(Failure) -> Work {
        if let work = state.withLock({ $0.work }) { return work }
        let name = operation.name ?? options.outputs.first ?? options.place
        // A change above a function changes its line, so the line counts only for an operation without a name.
        let identity =
            options.outputs.isEmpty
            ? operation.name.map { "\($0) \(options.file)" } ?? options.place : options.outputs.joined(separator: "\0")
        var step = Step(name: name, identity: identity, components: [])
        step.inputs = options.inputs
        step.optionalInputs = options.optionalInputs
        step.outputs = options.outputs
        step.depfile = options.depfile
        step.depfileDirectory = options.depfileDirectory
        step.memoizes = true
        step.keepsOutputsOnFailure = options.keepsOutputsOnFailure
        do throws(StoreError) {
            let work = try store.store.plan(step)
            state.withLock { state in
                state.work = work
                state.name = name
            }
            return work
        } catch { throw Failure(message: "\(error)") }
    }

    /// The files that the body may read and those that it is to make, as absolute paths; nil before `plan`.
    var files: (inputs: [String], outputs: [String])? { state.withLock { $0.work }?.files }

    /// Gives up the outputs. Call this when the operation has finished, or was not added.
    func end() {
        let (work, beginning) = state.withLock { ($0.work.take(), $0.beginning.take()) }
        withExtendedLifetime(beginning) { work?.end() }
    }
}
