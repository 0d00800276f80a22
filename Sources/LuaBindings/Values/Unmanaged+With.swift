extension Unmanaged {
    /// Calls `body` with the object without retaining it; the caller guarantees that another reference keeps the object alive. Like
    /// `_withUnsafeGuaranteedRef`, but for typed throws.
    @inline(__always)
    func with<Result, Failure: Error>(_ body: (Instance) throws(Failure) -> Result) throws(Failure) -> Result {
        let result = unsafe _withUnsafeGuaranteedRef { instance -> Swift.Result<Result, Failure> in
            do throws(Failure) { return .success(try body(instance)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
