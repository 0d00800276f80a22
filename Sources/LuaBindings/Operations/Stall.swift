import OpEngine

/// Explains why operations will never finish.
enum Stall {
    static func message(for operations: [Operation]) -> String {
        "this wait can never end: " + StallReport(waitingFor: operations).description(naming: .script)
    }

    /// The predicate of a sentence whose subject is the operation's name.
    static func reason(for operation: Operation) -> String {
        OperationBlockage(of: operation).reason(naming: .script)
    }
}
