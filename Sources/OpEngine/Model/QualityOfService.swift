/// How important a piece of work is to the user.
public enum QualityOfService: Int, Sendable, Hashable, CaseIterable {
    /// The user waits for the result and is interacting with it.
    case userInteractive = 33
    /// The user requested the work and waits for the result.
    case userInitiated = 25
    /// The user does not wait for the result.
    case utility = 17
    /// The user is not aware of the work.
    case background = 9
    /// Unspecified.
    case `default` = -1
}
