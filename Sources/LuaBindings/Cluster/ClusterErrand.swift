import OpEngine

/// What an operation of a cluster needs a thread of this process for, before it leaves and after it has come back.
///
/// It is not cancelled with all other operations when a runtime closes: they end only if it runs.
final class ClusterErrand: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the superclass is, and nothing here changes.

    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    override func main() { body() }
    override func cancel() {}
}
