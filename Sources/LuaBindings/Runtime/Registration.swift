import CLua
import OpEngine
import OpPlatform

/// A function, a class or a module loader of the host. Every state and every worker process gets all of them, in the same order.
protocol Registration: AnyObject, Sendable {
    /// The name in messages.
    var name: String { get }
    /// Identifies the objects of a class: their type, or their `ClassedObject.classIdentity`. Nil for anything but a class.
    var objectClass: ObjectIdentifier? { get }
    func register(in lua: OpaquePointer, _ failure: inout clua_failure) -> Int32
    func register(inProcess process: OpaquePointer, _ failure: inout clua_failure) -> Int32
}

extension Registration {
    var objectClass: ObjectIdentifier? { nil }
}

/// An object whose class is not its type.
protocol ClassedObject: AnyObject {
    var classIdentity: ObjectIdentifier { get }
}

/// The registered classes of a runtime.
final class ObjectClasses: Sendable {
    private let known = Guarded<[ObjectIdentifier: any Registration]>([:])

    func add(_ registration: any Registration) {
        if let identity = registration.objectClass { known.withLock { $0[identity] = registration } }
    }

    func removeAll() -> [ObjectIdentifier: any Registration] { known.withLock { exchange(&$0, with: [:]) } }

    /// The class of an object, or of its nearest superclass that is registered.
    func find(for object: AnyObject) -> (any Registration)? {
        known.withLock { known in
            var type: AnyClass? = type(of: object)
            while let current = type {
                if let found = known[ObjectIdentifier(current)] { return found }
                type = _getSuperclass(current)
            }
            return (object as? any ClassedObject).flatMap { known[$0.classIdentity] }
        }
    }

    /// The name of an object's class in messages.
    func name(of object: AnyObject) -> String { find(for: object)?.name ?? "\(type(of: object))" }
}
