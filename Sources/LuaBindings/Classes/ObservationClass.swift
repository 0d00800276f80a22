import CLua

/// The object that `observe` returns.
enum ObservationClass {
    enum Function: String, Member {
        case invalidate
    }

    enum Property: String, Member {
        case keyPath
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let properties = unsafe Property.table
        let none = unsafe NoMember.table
        return unsafe clua_class(
            name: StaticName.observation, kind: ObjectKind.observation.rawValue, base: nil, functions: functions.start,
            function_count: functions.count, properties: properties.start, property_count: properties.count, class_properties: none.start,
            class_property_count: 0,
            call: { unsafe LuaState.answer($0, $1, $2, ObservationClass.function) },
            get: { unsafe LuaState.answer($0, $1, $2, ObservationClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, ObservationClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, ObservationClass.describe) })
    }

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        try call.observation(callingFor: Function.invalidate.rawValue).invalidate(in: call.state)
        return .nothing
    }

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let observation = call.observationIfAny(at: 1) else { throw call.expected("observation", at: 1) }
        return Property(number: member) == .keyPath ? .string(observation.keyPath) : .nil
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer { throw .message("an observation cannot be changed") }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let observation = call.observationIfAny(at: 1) else { throw call.expected("observation", at: 1) }
        return .string("observation of '\(observation.keyPath)'\(observation.isActive ? "" : " (invalidated)")")
    }
}
