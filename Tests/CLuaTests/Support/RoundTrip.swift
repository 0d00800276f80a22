import CLua

/// Runs `source` in one state, sends what it returns to two others, and runs `check` there with the values as `...`: once as an
/// operation's body arrives, and once as results do.
///
/// - Parameter prelude: what each state runs first.
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

/// The message of the error that sending what `source` returns ends with; nil when it can be sent.
func refusal(_ source: String, as role: clua_parcel_role = CLUA_STORED) throws -> String? {
    let sender = State()
    try sender.run(source)
    do throws(ScriptError) { _ = try sender.encode(sender.count, as: role) } catch { return error.message }
    return nil
}
