/// A token that keeps an observation alive. The observation ends when the token is deallocated or invalidated.
///
/// Foundation's name is an alias for this class. Safe to use from any thread.
public final class KeyValueObservation: Sendable {
    private let mailbox: Mailbox
    private let registration: Registration

    init(mailbox: Mailbox, registration: Registration) {
        self.mailbox = mailbox
        self.registration = registration
    }

    deinit { invalidate() }

    /// Ends the observation: the handler is called no more. A call that another thread is making, or is about to make, still takes place.
    public func invalidate() { mailbox.remove(registration) }
}

/// Selects the values that a change handler receives, and the calls of that handler.
public struct KeyValueObservingOptions: OptionSet, Sendable {
    /// One bit for each option, with Foundation's values.
    public let rawValue: UInt
    /// Creates a set from the bits of `rawValue`.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The handler receives the new value.
    public static let new = KeyValueObservingOptions(rawValue: 1)
    /// The handler receives the old value.
    public static let old = KeyValueObservingOptions(rawValue: 2)
    /// The handler is called once before `observe` returns, with the current value as the new one.
    public static let initial = KeyValueObservingOptions(rawValue: 4)
    /// The handler is also called before each change, without a new value.
    ///
    /// For changes announced with `willChangeValue`, that call precedes the change. The engine's own changes have already happened by
    /// then; the call directly precedes the regular one.
    public static let prior = KeyValueObservingOptions(rawValue: 8)
}

/// A change of a value, as passed to a handler.
public struct KeyValueObservedChange<Value> {
    /// The kind of a change. Operations and queues only replace values.
    public enum Kind: UInt, Sendable {
        /// The value was replaced.
        case setting = 1
    }

    /// Always `.setting`.
    public let kind: Kind
    /// The value after the change. Nil without the option `.new`, and in a prior call. An optional value is wrapped in a second optional.
    public let newValue: Value?
    /// The value before the change. Nil without the option `.old`, and in the initial call.
    public let oldValue: Value?
    /// Whether the call precedes the change. See `KeyValueObservingOptions.prior`.
    public let isPrior: Bool
}

extension KeyValueObservedChange: Sendable where Value: Sendable {}

/// Foundation's name for `KeyValueObservation`.
public typealias NSKeyValueObservation = KeyValueObservation
/// Foundation's name for `KeyValueObservingOptions`.
public typealias NSKeyValueObservingOptions = KeyValueObservingOptions
/// Foundation's name for `KeyValueObservedChange`.
public typealias NSKeyValueObservedChange = KeyValueObservedChange
