import CLua
import OpEngine

/// Operations of which, until something asks for them, only their handles know: see `latent.h`.
extension LuaOperation {
    /// The operation of a latent handle in `state`, which is asked for now.
    convenience init(latentIn state: borrowing LuaState, hasCompletion: Bool) {
        self.init(state.origin(of: .function, nil), Mutable(latentWithCompletion: hasCompletion))
    }
}

extension Call {
    /// Makes the operation of the latent handle at a stack index as it is when it has been made fit for `queue`, and adds it by `add`.
    ///
    /// - Returns: false, and nothing was done: it is not latent, or its body is not as simple as that, or runs as it is.
    /// - Throws: what `add` throws.
    @inline(__always)
    func addLatentOperation(at index: Int32, to queue: OperationQueue, _ add: (Operation) throws -> Void) throws -> Bool {
        if state.runsHere(in: queue) { return false }
        var contents = unsafe clua_parcel()
        guard let handle = unsafe clua_encode_latent(lua, index, &contents) else { return false }
        let isFlat = unsafe contents.is_flat
        let hasCompletion = unsafe handle.pointee.has_callback != 0
        // Safety: the handle, which is on the stack of the call, keeps it.
        let operation = unsafe Unmanaged.passRetained(
            LuaOperation(
                state.origin(of: .function, nil),
                LuaOperation.Content(body: Parcel(contents), isInHandle: true, hasCompletion: hasCompletion), hasCompletion: hasCompletion))
        return try unsafe operation._withUnsafeGuaranteedRef { made in
            made.placeOfHandle = unsafe handle.pointee.place
            unsafe clua_give_object(lua, index, handle, operation.toOpaque())
            if hasCompletion { state.awaitCompletion() }
            // Finalizers may run, and ask for the operation: it is there.
            if !isFlat { state.publishPaths() }
            do { try add(made) } catch {
                made.withdraw(in: state)
                throw error
            }
            return true
        }
    }
}
