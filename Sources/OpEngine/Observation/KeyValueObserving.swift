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
