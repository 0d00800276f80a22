import CLua

/// The options of programs about the terminal and signals.
extension Call {
    /// An option that is true or false.
    func flag(_ name: String, at index: Int32) throws(CallError) -> Bool {
        guard type(at: index) == LUA_TBOOLEAN else { throw .argument(1, "\(name) must be true or false, got a \(typeName(at: index))") }
        return try boolean(at: index)
    }

    /// Seconds from one signal to the next when a program is ended.
    func grace(at index: Int32) throws(CallError) -> Double {
        guard type(at: index) == LUA_TNUMBER else { throw .argument(1, "grace must be a number of seconds, got a \(typeName(at: index))") }
        let seconds = try number(at: index)
        guard seconds >= 0 else { throw .argument(1, "grace must be 0 or more seconds, got \(seconds.scriptText)") }
        return seconds
    }
}
