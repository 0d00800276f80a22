import CLua
import OpEngine

/// Deferred operations: only their handles exist until something asks for the operation. See `deferred.h`.
extension LuaState {
    /// The facts about deferred operations that C must know.
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
                        unsafe state.whileRunning(lua) { unsafe state.addDeferredOperation(lua, to: queue, handle) }
                    }
                }
            })
    }

    /// Makes the operation of a deferred handle in `state`, because something has asked for it. Returns an owned reference.
    static func makeDeferredOperation(_ state: UnsafeMutableRawPointer?, hasCompletion: Bool) -> UnsafeMutableRawPointer? {
        guard let state = unsafe state else { return nil }
        // Safety: the object is set before the first script runs and outlives the state.
        return unsafe Unmanaged<LuaState>.fromOpaque(state)._withUnsafeGuaranteedRef { state in
            let fields = LuaOperation.Fields(deferredWithCompletion: hasCompletion)
            let operation = LuaOperation(state.origin(of: .function, nil), fields)
            if state.isRecorded { operation.recordPlace("", isFinal: true) }
            return unsafe Unmanaged.passRetained(operation).toOpaque()
        }
    }

    /// Makes the operation of `handle`, a deferred one at stack index 2, and adds it to `queue`, an `OperationQueue`. The operation is
    /// inline.
    ///
    /// - Returns: true if the operation was added. False, without any effect, if a script has observed something in this state, if adding
    ///   has limits, if the body captures more than plain values, or if it will run in this state. Also false if the queue has rejected the
    ///   operation; then the handle is no longer deferred.
    @inline(__always)
    private func addDeferredOperation(_ lua: OpaquePointer, to queue: OperationQueue, _ handle: UnsafeMutablePointer<clua_handle>) -> Bool {
        if hasObserved || core.usage.limitsAdding || queue.hasPendingLimit || runsHere(in: queue) { return false }
        var contents = unsafe clua_parcel()
        guard unsafe clua_encode_deferred(lua, 2, &contents) else { return false }
        let isFlat = unsafe contents.is_flat
        let hasCompletion = unsafe handle.pointee.has_callback != 0
        let operation = unsafe Unmanaged.passRetained(
            LuaOperation(
                origin(of: .function, nil),
                LuaOperation.StateWord(body: Parcel(contents), isInHandle: true, hasCompletion: hasCompletion), hasCompletion: hasCompletion
            ))
        return unsafe operation._withUnsafeGuaranteedRef { made in
            made.handleSlot = unsafe handle.pointee.slot
            unsafe clua_give_object(lua, 2, handle, operation.toOpaque())
            if hasCompletion { awaitCompletion() }
            // Encoding may run finalizers, which may ask for the operation. So the handle has the operation already.
            if !isFlat { publishPaths() }
            do { try queue.tryAddOperation(made) } catch {
                made.withdraw(in: self)
                return false
            }
            return true
        }
    }
}
