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
    func addLatentOperation(at index: Int32, to queue: OperationQueue, _ add: (Operation) throws -> Void) throws -> Bool {
        if state.core.isMain(state) && state.core.isMainQueue(queue) { return false }
        var contents = unsafe clua_parcel()
        guard let handle = unsafe clua_encode_latent(lua, index, &contents) else { return false }
        let parcel = unsafe Parcel(contents)
        if !parcel.isFlat { state.publishPaths() }
        let hasCompletion = unsafe handle.pointee.has_callback != 0
        let operation = LuaOperation(
            state.origin(of: .function, nil), LuaOperation.Content(body: parcel, isInHandle: true, hasCompletion: hasCompletion),
            hasCompletion: hasCompletion)
        operation.placeOfHandle = unsafe handle.pointee.place
        unsafe clua_give_object(lua, index, handle, Unmanaged.passRetained(operation).toOpaque())
        if hasCompletion { state.awaitCompletion() }
        do { try add(operation) } catch {
            operation.withdraw(in: state)
            throw error
        }
        return true
    }
}
