import OpPlatform

/// The answers of classes to `keyPathsForValuesAffectingValue(forKey:)`.
enum DependentKeys {
    private struct Question: Hashable {
        let type: ObjectIdentifier
        let key: ObservedKey
    }

    private static let answers = Guarded<[Question: Set<ObservedKey>]>([:])

    /// The keys whose changes change the value of `key`, directly and indirectly. Keeps the result for each class and key.
    static func keys(affecting key: ObservedKey, in type: any Observed.Type) -> Set<ObservedKey> {
        let question = Question(type: ObjectIdentifier(type), key: key)
        if let known = answers.withLock({ $0[question] }) { return known }
        // The class is asked without the lock, because its answer is code of a user.
        var found: Set<ObservedKey> = []
        var pending = [key]
        while let next = pending.popLast() {
            for name in next.names.flatMap({ type.keyPathsForValuesAffectingValue(forKey: $0) }) {
                let other = ObservedKey(name)
                if other != key, found.insert(other).inserted { pending.append(other) }
            }
        }
        answers.withLock { $0[question] = found }
        return found
    }
}
