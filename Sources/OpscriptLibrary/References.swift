/// Objects that C refers to by address.

/// A reference that the caller in C owns.
func retained(_ object: some AnyObject) -> OpaquePointer { OpaquePointer(Unmanaged.passRetained(object).toOpaque()) }

/// A reference that is valid as long as another owner keeps the object.
func borrowed(_ object: some AnyObject) -> OpaquePointer { OpaquePointer(Unmanaged.passUnretained(object).toOpaque()) }

/// The object at an address; nil for NULL.
func object<Object: AnyObject>(_ reference: OpaquePointer?, as type: Object.Type = Object.self) -> Object? {
    reference.map { Unmanaged<Object>.fromOpaque(UnsafeRawPointer($0)).takeUnretainedValue() }
}

/// The object at an address.
///
/// - Parameter what: the name of the argument in the header.
func require<Object: AnyObject>(_ reference: OpaquePointer?, _ what: String, as type: Object.Type = Object.self) throws -> Object {
    guard let object = object(reference, as: type) else { throw Misuse("\(what) is NULL") }
    return object
}

/// Gives up a reference that C owned.
func release<Object: AnyObject>(_ reference: OpaquePointer?, as type: Object.Type) {
    reference.map { Unmanaged<Object>.fromOpaque(UnsafeRawPointer($0)).release() }
}
