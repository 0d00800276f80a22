/// Objects whose properties can be observed by key path: operations, queues, and the progress of queues.
public protocol KeyValueObserving: AnyObject, Sendable {}

extension Operation: KeyValueObserving {}
extension OperationQueue: KeyValueObserving {}
extension OperationQueueProgress: KeyValueObserving {}

extension KeyValueObserving {
    /// Erases the type of a handler's values. The values always have that type, except if the property was named by a string.
    static func untyped<Value>(
        _ handler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> Registration.Handler {
        { object, notice in
            guard let object = object as? Self else { return }
            handler(
                object,
                KeyValueObservedChange(
                    kind: .setting, newValue: notice.new.flatMap { $0 as? Value }, oldValue: notice.old.flatMap { $0 as? Value },
                    isPrior: notice.isPrior))
        }
    }

    /// Erases the type of the observed object.
    static func untyped(_ read: @escaping (Self) -> any Sendable) -> Registration.Reader {
        { object in
            guard let object = object as? Self else { fatalError("opscript bug: an observer of \(Self.self) reads \(type(of: object))") }
            return read(object)
        }
    }
}

/// An operation or a queue. Both are observed in the same way.
protocol Observed: KeyValueObserving {
    static var observableNames: [String] { get }
    /// The names with which a string may ask for a property whose changes are never told.
    static var untoldNames: [String] { get }
    static func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String>
    func value(forKey key: String) -> (any Sendable)?
    /// Opens the mailbox for an observer that is about to subscribe.
    func expectSubscription() -> Mailbox
}

extension Operation: Observed {}
extension OperationQueue: Observed {}

extension Observed {
    func subscribe(
        _ key: ObservedKey, _ options: KeyValueObservingOptions, _ handler: @escaping Registration.Handler,
        read: @escaping (Self) -> any Sendable
    ) -> KeyValueObservation {
        if case .progress(let property) = key, let queue = self as? OperationQueue {
            return queue.progress.subscribe(property, options) { [weak self] _, notice in
                if let self { handler(self, notice) }
            }
        }
        return expectSubscription().subscribe(key, options, of: self, read: Self.untyped(read), handler: handler)
    }

    /// Observes a property that is named by a string.
    func subscribe(
        named name: String, _ options: KeyValueObservingOptions,
        _ changeHandler: @escaping @Sendable (KeyValueObservedChange<any Sendable>) -> Void
    ) -> KeyValueObservation {
        let handler: @Sendable (Self, KeyValueObservedChange<any Sendable>) -> Void = { _, change in changeHandler(change) }
        let key = ObservedKey(name)
        if key.isOfSubclass, Self.untoldNames.contains(where: { name == $0 || name.hasPrefix($0 + ".") }) { Self.refuse(name) }
        return subscribe(key, options, Self.untyped(handler)) { $0.value(forKey: name) }
    }

    /// `key`, the key of `keyPath`, if an observer may be told of its changes. Traps otherwise, so that no observer waits in vain.
    ///
    /// - Parameters:
    ///   - isInherited: whether the key path begins at the engine's class, so that no subclass declares the property.
    ///   - properties: properties of the engine's class, with their names.
    static func checked(
        _ key: ObservedKey, _ keyPath: PartialKeyPath<Self>, isInherited: Bool,
        not properties: [(name: String, keyPath: PartialKeyPath<Self>)]
    ) -> ObservedKey {
        guard case .path = key else { return key }
        let leadsFurther = keyPath.stepCount > (\Self.self as PartialKeyPath<Self>).stepCount
        let known = properties.first { $0.keyPath == keyPath }?.name
        guard let name = known ?? (leadsFurther || isInherited ? "\(keyPath)" : nil) else { return key }
        refuse(name)
    }

    private static func refuse(_ name: String) -> Never {
        let object = self is Operation.Type ? "an operation" : "a queue"
        trap(OperationError.cannotBeObserved(property: name, object: object, observable: observableNames))
    }
}

extension AnyKeyPath {
    /// The number of properties and unwrapped optionals that the path leads through. The text of a path has them, with types in
    /// parentheses.
    fileprivate var stepCount: Int {
        var (depth, count) = (0, 0)
        for character in "\(self)" {
            switch character {
            case "(": depth += 1
            case ")": depth -= 1
            case ".", "?", "!": if depth == 0 { count += 1 }
            default: break
            }
        }
        return count
    }
}
