import Glibc
import OpEngine

/// Records that an operation has read the result of a failed operation, and found nil.
struct MissingResult {
    /// The operation that has read the result. Used only for comparison.
    let reader: ObjectIdentifier
    /// The name of the failed operation in reports.
    let description: String

    /// The name of the failed operation whose missing result has made `operation` fail with `failure` on this thread; nil if that was not the
    /// reason.
    static func cause(of failure: Failure, in operation: Operation) -> String? {
        guard let state = (operation as? LuaOperation)?.core.existingStateOfCurrentThread else { return nil }
        guard let missing = state.missingResult, missing.reader == ObjectIdentifier(operation) else { return nil }
        state.missingResult = nil
        // If the body went on without the result, it may have failed for another reason. `String.contains` would link two libraries of regular
        // expressions into the command: 2 MB, and a twentieth of the time of its start.
        let isAboutNil = unsafe strstr(failure.message, "nil") != nil || failure.message.hasSuffix("assertion failed!")
        return isAboutNil ? missing.description : nil
    }
}

extension LuaState {
    /// Remembers that the operation that runs here finds no result in `failed`.
    func noteMissingResult(of failed: LuaOperation) {
        guard let reader = currentOperation, let failure = failed.error as? OperationFailure else { return }
        missingResult = MissingResult(reader: ObjectIdentifier(reader), description: failure.operationDescription)
    }
}
