/// Something that only so many operations of an engine may have at once, and that an operation takes when it starts.
enum Requirement: Equatable {
    /// One of an operation's `exclusiveKeys`. There is one of each.
    case key(String)
    /// One of an operation's `needs`. The engine's `resources` say how much there is.
    case resource(String)
    /// A start that the rate limit of a queue allows. It does not come back when the operation has finished.
    case start(ObjectIdentifier)
}
