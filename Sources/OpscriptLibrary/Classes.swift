public import COpscript
import LuaBindings

/// `opscript_class_new`
@_cdecl("opscript_class_new")
public func newClass(_ name: UnsafePointer<CChar>?) -> OpaquePointer? { (try? text(name, "name")).map { retained(ForeignClass($0)) } }

/// `opscript_class_add`
@_cdecl("opscript_class_add")
public func add(
    _ objectClass: OpaquePointer?, _ kind: opscript_member, _ name: UnsafePointer<CChar>?, _ function: opscript_host_function?,
    _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?, _ error: ErrorPlace?
) -> Bool {
    let data = UserData(userData, destroy)
    return reporting("opscript_class_add", to: error) {
        let objectClass: ForeignClass = try require(objectClass, "class_")
        let name = try text(name, "name")
        guard let function else { throw Misuse("function is NULL") }
        let body = hostFunction(function, data)
        switch kind {
        case OPSCRIPT_FUNCTION: objectClass.add(function: name, body)
        case OPSCRIPT_METHOD: objectClass.add(method: name, body)
        case OPSCRIPT_GETTER: objectClass.add(getter: name, body)
        case OPSCRIPT_SETTER: objectClass.add(setter: name, body)
        case OPSCRIPT_METAMETHOD:
            guard objectClass.add(metamethod: name, body) else {
                throw Misuse("'\(name)' is not a metamethod that a class of the program can have")
            }
        default: throw Misuse("there is no kind of member with the number \(kind.rawValue)")
        }
    }.isDone
}

/// `opscript_register_class`
@_cdecl("opscript_register_class")
public func register(_ runtime: OpaquePointer?, _ objectClass: OpaquePointer?, _ error: ErrorPlace?) -> Bool {
    entering(runtime, "opscript_register_class", error) { runtime in
        try runtime.register(try require(objectClass, "class_", as: ForeignClass.self))
    }.isDone
}

/// `opscript_value_new_object`
@_cdecl("opscript_value_new_object")
public func newObject(
    _ objectClass: OpaquePointer?, _ pointer: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?
) -> OpaquePointer? {
    let data = UserData(pointer, destroy)
    return object(objectClass, as: ForeignClass.self).map {
        retained(ValueObject(.object(LuaReference(ForeignObject(data, of: $0)))))
    }
}

/// `opscript_value_object`
@_cdecl("opscript_value_object")
public func pointer(_ value: OpaquePointer?, _ objectClass: OpaquePointer?) -> UnsafeMutableRawPointer? {
    guard let objectClass = object(objectClass, as: ForeignClass.self) else { return nil }
    return (ForeignObject.of(luaValue(value), of: objectClass)?.content as? UserData)?.pointer
}

/// `opscript_class_free`
@_cdecl("opscript_class_free")
public func freeClass(_ objectClass: OpaquePointer?) { release(objectClass, as: ForeignClass.self) }
