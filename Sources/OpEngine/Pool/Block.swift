/// A stored closure. A bare closure would be wrapped in a reabstraction thunk each time it is put into an array, an optional or another
/// generic context, and again when it is taken out.
struct Block: Sendable {
    let call: @Sendable () -> Void

    init(_ call: @escaping @Sendable () -> Void) { self.call = call }
}
