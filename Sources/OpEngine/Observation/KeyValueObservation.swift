/// Stops an observation when it goes: hold it for as long as changes are wanted.
///
/// Foundation's name for it is an alias here. Safe from every thread.
public final class KeyValueObservation: Sendable {
    private let mailbox: Mailbox
    private let registration: Registration

    init(mailbox: Mailbox, registration: Registration) {
        self.mailbox = mailbox
        self.registration = registration
    }

    deinit { invalidate() }

    /// Stops observing. No call of the handler begins after it has returned; one that is under way on another thread goes on.
    public func invalidate() { mailbox.remove(registration) }
}

/// What a handler of changes is told, and when.
public struct KeyValueObservingOptions: OptionSet, Sendable {
    /// One bit for each option; Foundation's numbers.
    public let rawValue: UInt
    /// Makes a set of the bits of `rawValue`.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The handler is told the new value.
    public static let new = KeyValueObservingOptions(rawValue: 1)
    /// The handler is told the old value.
    public static let old = KeyValueObservingOptions(rawValue: 2)
    /// The handler is called once before `observe` returns, with the value of that moment as the new one.
    public static let initial = KeyValueObservingOptions(rawValue: 4)
    /// The handler is called before each change as well, without a new value.
    ///
    /// For changes that `willChangeValue` announces this is before the change. The engine's own changes have been made by then: the call
    /// comes right before the other one.
    public static let prior = KeyValueObservingOptions(rawValue: 8)
}

/// One change of a value, as a handler is told.
public struct KeyValueObservedChange<Value> {
    /// What kind of change it was. Operations and queues replace their values.
    public enum Kind: UInt, Sendable {
        /// A value was replaced by another.
        case setting = 1
    }

    /// Always `.setting`.
    public let kind: Kind
    /// The value after the change; nil without the option `.new`, and before the change. An optional value is wrapped once more.
    public let newValue: Value?
    /// The value before the change; nil without the option `.old`, and in the initial call.
    public let oldValue: Value?
    /// Whether the call says that the value is about to change. See `KeyValueObservingOptions.prior`.
    public let isPrior: Bool
}

extension KeyValueObservedChange: Sendable where Value: Sendable {}

/// Foundation's name.
public typealias NSKeyValueObservation = KeyValueObservation
/// Foundation's name.
public typealias NSKeyValueObservingOptions = KeyValueObservingOptions
/// Foundation's name.
public typealias NSKeyValueObservedChange = KeyValueObservedChange
