import CLua
import OpEngine

/// Objects of the host. Objects of registered classes have another metatable (`clua_register_class`); the others have no members.
enum ObjectClass {
    static var description: clua_class {
        let none = unsafe NoMember.table
        return unsafe clua_class(
            name: StaticName.object, kind: ObjectKind.object.rawValue, base: nil, functions: none.start, function_count: 0,
            properties: none.start, property_count: 0, class_properties: none.start, class_property_count: 0,
            call: { _, _, _ in },
            get: { unsafe LuaState.answer($0, $1, $2, ObjectClass.refuse) },
            set: { unsafe LuaState.answer($0, $1, $2, ObjectClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, ObjectClass.describe) })
    }

    private static func refuse(_: Int32, _ call: Call) throws(CallError) -> Answer {
        throw .message(
            "\(Grammar.indefinite(call.typeName(at: 1))) has no members: the host had not registered its class when it passed it")
    }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer { .string(call.typeName(at: 1)) }
}

extension LuaCall {
    /// Reads the object of a method call, the first argument.
    func receiver<Object: LuaObject>(_ index: inout Int, _ type: Object.Type, of method: String) throws -> Object {
        index += 1
        if let object = object(at: index, as: type) { return object }
        throw CallError.message("call '\(method)' with ':', as in object:\(method)(...); what came before it is \(found(at: index))")
    }
}

extension LuaConvertible where Self: LuaObject {
    /// Reads an object of this class.
    public static func read(from call: borrowing LuaCall, at index: Int) throws -> Self {
        guard let object = call.object(at: index, as: Self.self) else { return try fromLua(call.value(at: index)) }
        return object
    }
}
