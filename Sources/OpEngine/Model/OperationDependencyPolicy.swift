/// Which outcomes of its dependencies an operation requires.
public enum OperationDependencyPolicy: Sendable, Hashable {
    /// Runs when its dependencies have finished, whatever their outcome. This is Foundation's behaviour.
    case finished
    /// Runs when its dependencies have succeeded. Is cancelled if one of them failed or was cancelled.
    case succeeded
}
