/// An object of the host that scripts hold by reference. Every state has the same object, so the object must be safe to use from several
/// threads at once; `Sendable` is the promise of that.
///
/// Scripts see the members that a `LuaClass` registers for the object's class, or for its nearest superclass that has a `LuaClass`. Without one,
/// an object can be passed around, compared and used as a key, and has no members.
///
/// ```swift
/// final class Counter: LuaObject {
///     let count = Atomic(0)
/// }
/// ```
public protocol LuaObject: AnyObject, Sendable, LuaConvertible {}

/// A reference to an object of the host. Two references are equal if they refer to the same object.
public struct LuaReference: Sendable, Hashable {
    /// The object.
    public let object: any LuaObject

    /// Makes a reference, which retains the object.
    public init(_ object: any LuaObject) { self.object = object }

    /// The kind of the object's handle.
    var kind: ObjectKind { (object as? any ModuleObject)?.kind ?? .object }

    /// Whether both refer to the same object.
    public static func == (left: LuaReference, right: LuaReference) -> Bool { left.object === right.object }

    /// Hashes the object's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(object)) }
}
