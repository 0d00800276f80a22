import CLua

/// Functions of the module that concern the code of scripts.
extension Call {
    /// `opscript.prelude(f)`.
    func addPrelude() throws(CallError) -> Answer {
        try requireKeeping("opscript.prelude")
        guard isFunction(at: 1) else { throw expected("function", at: 1) }
        let label = functionLabel(at: 1)
        unsafe lua_settop(lua, 1)
        state.publishSettings()
        do throws(Failure) { state.core.add(Prelude(body: try state.encode(count: 1, CLUA_BODY), label: label)) } catch {
            throw CallError(error)
        }
        return .nothing
    }

    /// The name in messages of the function at a stack index: the place of its definition.
    func functionLabel(at index: Int32) -> String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            unsafe clua_function_label(lua, index, buffer.baseAddress, buffer.count)
            return unsafe buffer.baseAddress.map { unsafe String(cString: $0) } ?? ""
        }
    }

    /// `opscript.captures(f)`.
    func captures() throws(CallError) -> Answer {
        guard isFunction(at: 1) else { throw expected("function", at: 1) }
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_captures(lua, 1, &failure) }
        } catch { throw CallError(error) }
        return .values(1)
    }

    /// Throws an error if the calling body runs in another process, because the host cannot keep a function of that process.
    func requireKeeping(_ what: String) throws(CallError) {
        if state.link != nil {
            throw .message("\(what) is not available in an operation that runs in a worker process (Configuration.isolation)")
        }
    }
}
