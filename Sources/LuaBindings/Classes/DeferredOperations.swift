import CLua
import OpEngine

/// Deferred operations: each exists only as a handle until code needs the engine's operation. See `deferred.h`.
extension LuaState {
    /// The description of deferred operations for C.
    static var deferral: clua_deferral {
        unsafe clua_deferral(
            kind: ObjectKind.operation.rawValue, make_function: OperationClass.Function.new.number,
            callback_property: StaticName.completionBlock, queue_kind: ObjectKind.queue.rawValue,
            add_function: OperationQueueClass.Function.addOperation.number,
            add: { lua, queue, handle in
                guard let lua = unsafe lua, let queue = unsafe queue, let handle = unsafe handle else { return false }
                // Safety: the handles are on the stack of the call and keep both objects alive.
                return unsafe Unmanaged<OperationQueue>.fromOpaque(queue)._withUnsafeGuaranteedRef { queue in
                    unsafe LuaState.with(lua) { state in
                        if state.isForked { return false }  // the call that follows is an error
                        return unsafe state.whileRunning(lua) { unsafe state.addDeferredOperation(lua, to: queue, handle) }
                    }
                }
            })
    }

    /// Makes the operation of a deferred handle in `state`, because code needs it. Returns an owned reference.
    static func makeDeferredOperation(_ state: UnsafeMutableRawPointer?, hasCompletion: Bool) -> UnsafeMutableRawPointer? {
        guard let state = unsafe state else { return nil }
        // Safety: the object is set before the first script runs and outlives the state.
        return unsafe Unmanaged<LuaState>.fromOpaque(state)._withUnsafeGuaranteedRef { state in
            var fields = LuaOperation.Fields(bodies: .one(.handle))
            if hasCompletion { fields.completion = LuaOperation.Completion(place: .home) }
            let operation = LuaOperation(state.origin(of: .function, nil), fields)
            if state.isRecorded { operation.recordPlace("", isFinal: true) }
            return unsafe Unmanaged.passRetained(operation).toOpaque()
        }
    }
}
