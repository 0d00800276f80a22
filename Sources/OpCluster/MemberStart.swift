@_spi(Locking) import OpEngine

/// The start of a member, which succeeds or fails once.
final class MemberStart: Sendable {
    private enum State {
        case underWay(@Sendable (ClusterError?) -> Void)
        case over(hasFailed: Bool)
    }

    private let state: Guarded<State>

    /// - Parameter completion: called once, on any thread, with what is wrong; nil if all is well.
    init(_ completion: @escaping @Sendable (ClusterError?) -> Void) { state = Guarded(.underWay(completion)) }

    /// Whether the start has failed.
    var hasFailed: Bool {
        state.withLock { if case .over(hasFailed: true) = $0 { true } else { false } }
    }

    func succeed() { end(with: nil) }

    /// Returns false if the start is over.
    @discardableResult
    func fail(_ text: String) -> Bool { end(with: ClusterError(text)) }

    @discardableResult
    private func end(with error: ClusterError?) -> Bool {
        let completion = state.withLock { state -> (@Sendable (ClusterError?) -> Void)? in
            guard case .underWay(let completion) = state else { return nil }
            state = .over(hasFailed: error != nil)
            return completion
        }
        completion?(error)
        return completion != nil
    }
}
