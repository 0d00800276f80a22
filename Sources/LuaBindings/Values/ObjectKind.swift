import CLua

/// The classes of host objects that scripts can hold.
enum ObjectKind: Int32 {
    case operation = 1
    case queue = 2
    case error = 3
    case timer = 4
    case process = 5
    case scriptClass = 6
    case object = 7
    case observation = 8
    case channel = 9
    case stream = 10
}

extension clua_reference {
    /// Makes a reference that retains `object`.
    init(_ object: AnyObject, _ kind: ObjectKind) {
        unsafe self.init(object: Unmanaged.passRetained(object).toOpaque(), kind: kind.rawValue, is_unowned: false)
    }

    /// Makes a reference that does not retain `object`. The caller keeps the object alive while the reference is used.
    init(unowned object: AnyObject, _ kind: ObjectKind) {
        unsafe self.init(object: Unmanaged.passUnretained(object).toOpaque(), kind: kind.rawValue, is_unowned: true)
    }
}

/// The object behind a pointer that Lua holds.
func object<T: AnyObject>(_ pointer: UnsafeMutableRawPointer, as type: T.Type) -> T {
    let object = unsafe Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue()
    // Safety: the handle's kind says which class the object has.
    return unsafe unsafeDowncast(object, to: type)
}

/// An object of a class of the module `opscript`. The host gets it as a `LuaValue.object`, like an object of its own.
protocol ModuleObject: LuaObject {
    var kind: ObjectKind { get }
}
