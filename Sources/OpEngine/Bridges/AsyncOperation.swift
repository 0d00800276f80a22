/// An asynchronous operation without a result. A subclass overrides `run`, or `main` for work that ends in a callback:
///
///     final class Download: AsyncOperation, @unchecked Sendable {
///         let url: String
///         init(_ url: String) { self.url = url }
///         override func run() async throws { try await store(fetch(url)) }
///     }
public typealias AsyncOperation = ResultOperation<Void>

extension ResultOperation where Value == Void {
    /// Finishes the operation. Only the first call of a finishing method has an effect. Safe to call from any thread.
    public func finish() { finish(returning: ()) }
}
