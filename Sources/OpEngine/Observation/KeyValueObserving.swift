/// What can be observed by key path: operations, queues, and the progress of queues.
public protocol KeyValueObserving: AnyObject, Sendable {}

extension Operation: KeyValueObserving {}
extension OperationQueue: KeyValueObserving {}
extension OperationQueue.Progress: KeyValueObserving {}

extension KeyValueObserving {
    /// A handler for a registration. The type of the values is known to fit, except where a string was used.
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
}
