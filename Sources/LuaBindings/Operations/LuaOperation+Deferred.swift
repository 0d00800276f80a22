import CLua
import OpEngine

/// Operations of which, until something asks for them, only their handles know: see `deferred.h`.
extension LuaOperation {
    /// The operation of a latent handle in `state`, which is asked for now.
    convenience init(deferredIn state: borrowing LuaState, hasCompletion: Bool) {
        self.init(state.origin(of: .function, nil), Fields(deferredWithCompletion: hasCompletion))
    }
}

extension LuaState {
    /// Makes the operation of `handle`, a latent one at stack index 2, as it is when it has been made fit for `queue`, an `OperationQueue`, and
    /// adds it.
    ///
    /// - Returns: false: somebody observes something here, the body is not as simple as that, or runs as it is; then nothing was done. Or the
    ///   queue has refused it; then it is latent no more.
    static func addDeferredOperation(
        _ lua: OpaquePointer, to queue: UnsafeMutableRawPointer, _ handle: UnsafeMutablePointer<clua_handle>
    ) -> Bool {
        // Safety: the handles, which are on the stack of the call, keep both.
        unsafe Unmanaged<OperationQueue>.fromOpaque(queue)._withUnsafeGuaranteedRef { queue in
            unsafe with(lua) { state in unsafe state.whileRunning(lua) { unsafe state.addDeferredOperation(lua, to: queue, handle) } }
        }
    }

    @inline(__always)
    private func addDeferredOperation(_ lua: OpaquePointer, to queue: OperationQueue, _ handle: UnsafeMutablePointer<clua_handle>) -> Bool {
        if hasObserved || runsHere(in: queue) { return false }
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
            // Finalizers may run, and ask for the operation: it is there.
            if !isFlat { publishPaths() }
            do { try queue.tryAddOperation(made) } catch {
                made.withdraw(in: self)
                return false
            }
            return true
        }
    }
}
