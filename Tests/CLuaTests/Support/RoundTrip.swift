import CLua

/// Runs `source` in one state, sends the results to two other states, and runs `check` there with the values as `...`. The values arrive
/// once as the body of an operation and once as its results.
///
/// - Parameter prelude: a chunk that each state runs first.
func roundTrip(_ source: String, check: String = "", after prelude: String = "") throws {
    let sender = State()
    try sender.run(prelude)
    let parcel = try sender.encode(source)
    for environment in [CLUA_FRESH_ENVIRONMENT, CLUA_CURRENT_ENVIRONMENT] {
        let receiver = State()
        try receiver.run(prelude)
        try receiver.decode(parcel, in: environment)
        try receiver.run(check, arguments: receiver.count)
    }
}

/// The message of the error when the results of `source` are sent; nil when they can be sent.
func refusal(_ source: String, as role: clua_parcel_role = CLUA_STORED) throws -> String? {
    let sender = State()
    try sender.run(source)
    do throws(ScriptError) { _ = try sender.encode(sender.count, as: role) } catch { return error.message }
    return nil
}
