import CLua
import OpEngine

/// Copies values of this state for other states.
extension LuaState {
    /// Encodes the top `count` values on the stack of the current call.
    func encode(count: Int32, _ role: clua_parcel_role) throws(Failure) -> Parcel { try unsafe Parcel(encodeContents(count: count, role)) }

    /// Encodes a function and its arguments, the top `count` values, for other states, and publishes the settings that the function may use.
    func encodeBody(count: Int32) throws(Failure) -> Parcel {
        let parcel = try encode(count: count, CLUA_BODY)
        if !parcel.isFlat { publishSettings() }
        return parcel
    }

    /// Like `encode`, but the caller must release the contents with `clua_parcel_release`, or make a `Parcel` of them.
    func encodeContents(count: Int32, _ role: clua_parcel_role) throws(Failure) -> clua_parcel {
        var contents = unsafe clua_parcel()
        do throws(Failure) {
            try unsafe attempt { lua, failure in
                let status = unsafe clua_send(lua, count, role, &contents)
                if status != LUA_OK { unsafe clua_take_message(lua, status, &failure) }
                return status
            }
        } catch {
            var refusal = error
            refusal.isRefusal = error.stop == nil && !error.isMemoryError
            throw refusal
        }
        return unsafe contents
    }

    /// Pushes the values of a parcel for the code that runs here.
    func decode(_ parcel: UnsafePointer<clua_parcel>) throws(Failure) {
        try unsafe attempt { lua, failure in
            let status = unsafe clua_decode(lua, parcel, CLUA_CURRENT_ENVIRONMENT)
            if status != LUA_OK { unsafe clua_take_message(lua, status, &failure) }
            return status
        }
    }

    /// Encodes a body in the handle of `operation` in this state.
    ///
    /// - Parameter handle: the stack index of the handle in the current call, or 0 to look it up.
    func encodeBody(of operation: LuaOperation, number: Int32, handleAt handle: Int32) throws(Failure) -> Parcel {
        let parcel = try encodeOwningBody(of: operation, number: number, handleAt: handle)
        parcel.makeUnowned(referencesTo: operation)
        if let scriptClass = operation.scriptClass {
            // A state may ask for the class after the operation is gone, so the class's own parcel must retain the operation.
            scriptClass.latest =
                parcel.refersToOwner ? try encodeOwningBody(of: operation, number: number, handleAt: handle) : parcel
        }
        return parcel
    }

    private func encodeOwningBody(of operation: LuaOperation, number: Int32, handleAt handle: Int32) throws(Failure) -> Parcel {
        var contents = unsafe clua_parcel()
        try unsafe attempt { lua, failure in
            var body = unsafe operation.cBody(number: number)
            unsafe body.handle = handle
            return unsafe clua_encode_body(lua, body, &contents, &failure)
        }
        return unsafe Parcel(contents)
    }

    /// The failure that results from raising the value at a stack index.
    func failure(raising index: Int32) -> Failure {
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_raise_value(lua, index, &failure) }
            return Failure(message: "error")
        } catch { return error }
    }
}

extension LuaState {
    /// A body with further arguments of the host. No code of scripts runs.
    func add(_ arguments: FlatValues, to body: UnsafePointer<clua_parcel>) throws(Failure) -> Parcel {
        var result = unsafe clua_parcel()
        try unsafe attempt { lua, failure in
            unsafe arguments.withItems { items in
                unsafe clua_add_arguments(lua, body, items.baseAddress, arguments.count, &result, &failure)
            }
        }
        return unsafe Parcel(result)
    }
}
