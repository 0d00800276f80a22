/// Something outside of a state that will call a function in it.
protocol EventSource: AnyObject, Sendable {
    /// The state goes: there is nobody left to be called. On the state's thread.
    func abandon()
}
