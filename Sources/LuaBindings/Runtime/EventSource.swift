/// An object outside of a state that will call a function in that state.
protocol EventSource: AnyObject, Sendable {
    /// Ends the source, because the state is closing and can no longer be called. On the state's thread.
    func abandon()
}
