/// A limited thing of an engine that an operation takes when it starts.
enum Requirement: Hashable {
    /// One of an operation's `exclusiveKeys`. Each key exists once.
    case key(String)
    /// One of an operation's `needs`. The engine's `resources` are the totals.
    case resource(String)
    /// A start that the rate limit of a queue allows. The operation does not return it.
    case start(ObjectIdentifier)
}
