import CLua
import OpEngine

/// The object that `operation.error` returns. It describes a failure. Scripts cannot make such an object.
enum ErrorClass {
    enum Property: String, Member {
        case message
        case traceback, value, kind, operation, member
    }

    static var description: clua_class {
        let properties = unsafe Property.table
        let none = unsafe NoMember.table
        return unsafe clua_class(
            name: StaticName.error, kind: ObjectKind.error.rawValue, base: nil, functions: none.start, function_count: 0,
            properties: properties.start, property_count: properties.count, class_properties: none.start, class_property_count: 0,
            call: { _, _, _ in },
            get: { unsafe LuaState.answer($0, $1, $2, ErrorClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, ErrorClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, ErrorClass.describe) })
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer {
        throw .message("an operation's error cannot be changed")
    }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer { .string(try call.error(at: 1).message) }

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        let error = try call.error(at: 1)
        switch Property(number: member) {
        case .message: return .string(error.message)
        case .traceback: return .string(error.traceback)
        case .value:
            // The raised value may refer to the operation, which may be deallocated.
            let operation = error.operation
            guard let value = error.value, operation != nil || !value.refersToOwner else { return .string(error.message) }
            return .parcel(value, keeping: operation)
        case .kind: return .string(error.kind.rawValue)
        case .operation: return .operation(error.operation)
        case .member: return .operation(error.member)
        case nil: return .nil
        }
    }
}
