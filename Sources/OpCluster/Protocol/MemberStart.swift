import OpPlatform

/// The start of a member, which succeeds or fails once.
final class MemberStart: Sendable {
    private enum State {
        case underWay(@Sendable (ClusterError?) -> Void)
        case over(hasFailed: Bool)
    }

    private let state: Guarded<State>
    private let need: String

    /// - Parameters:
    ///   - need: the rights that the member needs, in words for a person.
    ///   - completion: called once, on any thread, with what is wrong; nil if all is well.
    init(need: String, _ completion: @escaping @Sendable (ClusterError?) -> Void) {
        self.need = need
        state = Guarded(.underWay(completion))
    }

    /// Whether the start has failed.
    var hasFailed: Bool {
        state.withLock { if case .over(hasFailed: true) = $0 { true } else { false } }
    }

    func succeed() { finish(with: nil) }

    func fail(_ text: String) { finish(with: ClusterError(text)) }

    /// Fails the start, if it is not over, because the server has refused the member something.
    ///
    /// - Returns: a message for a person if the start had succeeded before; nil if the start has failed.
    @discardableResult
    func deny(_ denial: String) -> String? {
        let text = "\(denial): \(need)"
        fail(text)
        return hasFailed ? nil : text
    }

    private func finish(with error: ClusterError?) {
        let completion = state.withLock { state -> (@Sendable (ClusterError?) -> Void)? in
            guard case .underWay(let completion) = state else { return nil }
            state = .over(hasFailed: error != nil)
            return completion
        }
        completion?(error)
    }
}
