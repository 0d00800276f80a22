extension Unmanaged {
    /// Calls `body` with the object, which somebody else keeps meanwhile, without counting a reference: `_withUnsafeGuaranteedRef` for
    /// functions that say what they throw.
    @inline(__always)
    func with<Result, Failure: Error>(_ body: (Instance) throws(Failure) -> Result) throws(Failure) -> Result {
        let result = unsafe _withUnsafeGuaranteedRef { instance -> Swift.Result<Result, Failure> in
            do throws(Failure) { return .success(try body(instance)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
