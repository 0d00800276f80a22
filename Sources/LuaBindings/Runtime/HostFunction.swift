import CLua

/// A Swift function that scripts can call in every state.
struct HostFunction: Sendable {
    let name: String
    let body: @Sendable ([LuaValue]) throws -> [LuaValue]
}

extension LuaState {
    /// Registers the host's functions as globals of this state.
    func register(_ functions: ArraySlice<HostFunction>, from first: Int) throws(Failure) {
        for (number, function) in functions.enumerated() {
            try unsafe attempt { lua, failure in
                unsafe clua_register(
                    lua, function.name, { unsafe LuaState.answer($0, $1, $2, Call.callHost) }, Int32(first + number), &failure)
            }
        }
    }
}

extension Call {
    /// Calls a host function with all arguments of `call`.
    fileprivate static func callHost(_ number: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = call.state.core.hostFunction(Int(number)) else { throw .message("the runtime is closed") }
        let arguments = try call.values(from: 1)
        let results: [LuaValue]
        do { results = try function.body(arguments) } catch { throw .message("\(error)") }
        try call.push(results)
        return .values(results.count)
    }
}
