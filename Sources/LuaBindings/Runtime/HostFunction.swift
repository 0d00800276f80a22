import CLua

/// A Swift function that scripts can call, in every state.
struct HostFunction: Sendable {
    let name: String
    let body: @Sendable ([LuaValue]) throws -> [LuaValue]
}

extension LuaState {
    /// Makes functions of the host globals of this state.
    func register(_ functions: ArraySlice<HostFunction>, from first: Int) throws(Failure) {
        for (number, function) in functions.enumerated() {
            try unsafe attempt { lua, failure in
                unsafe clua_register(
                    lua, function.name,
                    { lua, member, reply in unsafe LuaState.answer(lua, reply) { call throws(CallError) in try call.callHost(Int(member)) } },
                    Int32(first + number), &failure)
            }
        }
    }
}

extension Call {
    /// Calls a function of the host with all arguments.
    fileprivate func callHost(_ number: Int) throws(CallError) -> Answer {
        let arguments = try values(from: 1)
        let results: [LuaValue]
        do { results = try state.core.hostFunction(number).body(arguments) } catch { throw .message("\(error)") }
        try push(results)
        return .values(results.count)
    }
}
