import CLua
import OpEngine
import OpPlatform

/// A registered class of the host, in the form that C reads.
@safe
final class HostClass: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because all fields, and the memory that they point to, are constant.

    typealias Body = @Sendable (borrowing LuaCall) throws -> Void

    /// The members by name.
    struct Members: Sendable {
        var functions: [String: Body] = [:]
        var methods: [String: Body] = [:]
        var getters: [String: Body] = [:]
        var setters: [String: Body] = [:]
        var metamethods: [String: Body] = [:]
    }

    let name: String
    /// The type of the objects, or their `ForeignClass`.
    let identity: ObjectIdentifier
    /// Keeps `identity` from becoming that of another object.
    private let foreign: ForeignClass?
    private let functions, methods, getters, setters, metamethods: FunctionTable
    private let getOther, setOther: HostFunction

    convenience init<Object: LuaObject>(_ name: String, of type: Object.Type, _ members: Members) {
        self.init(name, ObjectIdentifier(type), members)
    }

    convenience init(_ foreign: ForeignClass) { self.init(foreign.name, ObjectIdentifier(foreign), foreign.members, foreign) }

    private init(_ name: String, _ identity: ObjectIdentifier, _ members: Members, _ foreign: ForeignClass? = nil) {
        self.name = name
        self.identity = identity
        self.foreign = foreign
        functions = FunctionTable(members.functions)
        methods = FunctionTable(members.methods)
        getters = FunctionTable(members.getters)
        setters = FunctionTable(members.setters)
        var metamethods = members.metamethods
        if metamethods["__tostring"] == nil { metamethods["__tostring"] = { call in try call.push(name) } }
        self.metamethods = FunctionTable(metamethods)
        let readable = (Array(members.getters.keys) + Array(members.methods.keys)).sorted()
        getOther = HostFunction(name) { call in throw Self.unknown(try call.value(at: 2), of: name, readable) }
        let (getters, writable) = (members.getters, members.setters.keys.sorted())
        setOther = HostFunction(name) { call in
            let key = try call.value(at: 2)
            if let text = key.text, getters[text] != nil {
                throw CallError.message("'\(text)' of \(Grammar.indefinite(name)) cannot be assigned")
            }
            throw Self.unknown(key, of: name, writable)
        }
    }

    private static func unknown(_ key: LuaValue, of name: String, _ known: [String]) -> CallError {
        guard let text = key.text else {
            return .message("\(Grammar.indefinite(name)) has no member \(key.abbreviated(to: 60)): its members have names")
        }
        let hint = known.isEmpty ? "" : Spelling.suggestion(for: text, among: known)
        return .message("\(Grammar.indefinite(name)) has no member '\(text)'\(hint)")
    }

    /// Whether a class may have a metamethod of this name. Properties and methods replace `__index` and `__newindex`. Swift, not Lua, frees the
    /// objects.
    static func mayHave(metamethod name: String) -> Bool {
        name.hasPrefix("__") && !["__index", "__newindex", "__gc", "__mode", "__metatable", "__name", "__transfer"].contains(name)
    }

    /// Calls `body` with the description that C reads. `name` is valid during the call; the other pointers are valid as long as this object lives.
    private func withDescription(_ body: (UnsafePointer<clua_object_class>) -> Int32) -> Int32 {
        unsafe name.withCString { name in
            var description = unsafe clua_object_class()
            unsafe description.key = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
            unsafe description.name = name
            unsafe (description.functions, description.function_count) = (functions.pointer, functions.count)
            unsafe (description.methods, description.method_count) = (methods.pointer, methods.count)
            unsafe (description.getters, description.getter_count) = (getters.pointer, getters.count)
            unsafe (description.setters, description.setter_count) = (setters.pointer, setters.count)
            unsafe (description.metamethods, description.metamethod_count) = (metamethods.pointer, metamethods.count)
            unsafe description.get_other = Unmanaged.passUnretained(getOther).toOpaque()
            unsafe description.set_other = Unmanaged.passUnretained(setOther).toOpaque()
            return unsafe body(&description)
        }
    }
}

/// Functions by name, as C reads them.
@safe
private final class FunctionTable {
    private let functions: [HostFunction]
    private let table: UnsafeMutableBufferPointer<clua_named_function>

    init(_ bodies: [String: HostClass.Body]) {
        functions = bodies.sorted { $0.key < $1.key }.map { HostFunction($0.key, $0.value) }
        unsafe table = .allocate(capacity: functions.count)
        for (index, function) in functions.enumerated() {
            let bytes = Array(function.name.utf8CString)
            let name = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
            unsafe name.initialize(from: bytes, count: bytes.count)
            let pointer = unsafe Unmanaged.passUnretained(function).toOpaque()
            unsafe table.initializeElement(at: index, to: clua_named_function(name: name, function: pointer))
        }
    }

    deinit {
        for index in functions.indices { unsafe table[index].name.deallocate() }
        unsafe table.deallocate()
    }

    var pointer: UnsafePointer<clua_named_function>? { unsafe UnsafePointer(table.baseAddress) }
    var count: Int { functions.count }
}

extension HostClass: Registration {
    var objectClass: ObjectIdentifier? { identity }

    func register(in lua: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe withDescription { unsafe clua_register_class(lua, $0, &failure) }
    }

    func register(inProcess process: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe withDescription { unsafe clua_process_register_class(process, $0, &failure) }
    }
}
