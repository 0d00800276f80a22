/// A function that is kept. In an array, an optional or what a generic function returns, a bare function would be wrapped in another one
/// each time it is put there and taken out.
struct Block: Sendable {
    let call: @Sendable () -> Void

    init(_ call: @escaping @Sendable () -> Void) { self.call = call }
}
