import Glibc
import OpEngine

/// Records that an operation or the script has read the result of a failed operation, and found nil.
struct MissingResult {
    /// The operation that has read the result; nil for the script. Used only for comparison.
    let reader: ObjectIdentifier?
    /// The name of the failed operation in reports.
    let description: String

    /// The name of the failed operation whose missing result has made `operation` fail with `failure` on this thread; nil if that was not the
    /// reason.
    static func cause(of failure: Failure, in operation: Operation) -> String? {
        guard let state = (operation as? LuaOperation)?.core.existingStateOfCurrentThread else { return nil }
        return state.takeMissingResult(readBy: ObjectIdentifier(operation), causing: failure.message)
    }
}

extension LuaState {
    /// Remembers that the code that runs here finds no result in `failed`.
    func noteMissingResult(of failed: LuaOperation) {
        guard let failure = failed.error as? OperationFailure else { return }
        missingResult = MissingResult(reader: currentOperation.map { ObjectIdentifier($0) }, description: failure.operationDescription)
    }

    /// The name of the failed operation whose missing result explains an error of `reader`. Forgets the result.
    fileprivate func takeMissingResult(readBy reader: ObjectIdentifier?, causing message: String) -> String? {
        guard let missing = missingResult, missing.reader == reader else { return nil }
        missingResult = nil
        // If the code went on without the result, it may have failed for another reason. `String.contains` would link two libraries of regular
        // expressions into the command: 2 MB, and a twentieth of the time of its start.
        let isAboutNil = unsafe strstr(message, "nil") != nil || message.hasSuffix("assertion failed!")
        return isAboutNil ? missing.description : nil
    }
}

extension Runtime {
    /// The name of the failed operation whose missing result explains an error of the script; nil if none does.
    package func missingResult(causing error: LuaError) -> String? {
        (try? inside { state in state.takeMissingResult(readBy: nil, causing: error.message) }) ?? nil
    }
}
