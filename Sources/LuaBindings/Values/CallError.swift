/// A mistake of the caller, which becomes a Lua error.
enum CallError: Error {
    /// The text of the error, which follows the position of the caller.
    case message(String)
    /// The argument at this stack index is wrong.
    case argument(Int32, String)
    /// The error of an operation, raised again: the value, or the message of an error without one.
    case raised(Parcel?, String)
    /// Memory has run out.
    case noMemory
    /// The running body is stopped.
    case stop(StopReason)

    init(_ failure: Failure) {
        self = failure.stop.map { .stop($0) } ?? (failure.isMemoryError ? .noMemory : .message(failure.message))
    }
}

extension Failure {
    /// Makes the failure of a call that the host has made, not Lua.
    init(_ error: CallError) {
        switch error {
        case .message(let text), .argument(_, let text): self.init(message: text)
        case .raised(_, let text): self.init(message: text)
        case .noMemory:
            self.init(message: "not enough memory")
            isMemoryError = true
        case .stop: self.init(message: "error")
        }
    }
}
