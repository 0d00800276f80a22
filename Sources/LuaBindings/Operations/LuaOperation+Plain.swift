@_spi(Locking) import OpEngine
import Synchronization

/// What is done to an operation's content while it is plain.
extension LuaOperation {
    @inline(never)
    func makeVariables() -> UnsafeMutablePointer<Variables> {
        // Locked until they have taken over what the word owned, which nobody else can do from when it names them.
        let made = unsafe Variables.make(Mutable(bodies: .empty))
        unsafe made.pointee.lock.lock()
        var old = content.load(ordering: .acquiring)
        while true {
            if let variables = unsafe old.variables {
                unsafe Variables.destroy(made)
                return unsafe variables
            }
            let (exchanged, current) = content.compareExchange(
                expected: old, desired: unsafe Content(made), ordering: .acquiringAndReleasing)
            if exchanged { break }
            old = current
        }
        unsafe made.pointee.mutable =
            old == .nothing ? Mutable(bodies: origin.bodies) : Mutable(of: old, body: unsafe old.body.map { unsafe Parcel(taking: $0) })
        unsafe made.pointee.lock.unlock()
        return unsafe made
    }

    /// Changes the content in one step while it is plain; nil: it is not. `change` may run more than once and must be pure.
    @inline(__always)
    func changePlain<Result>(_ change: (inout Content) -> Result) -> Result? {
        var old = content.load(ordering: .acquiring)
        while old.isPlain {
            var new = old
            let result = change(&new)
            if new == old { return result }
            let (exchanged, current) = content.weakCompareExchange(
                expected: old, desired: new, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
            if exchanged { return result }
            old = current
        }
        return nil
    }

    /// Nil: it is not plain.
    @inline(__always)
    var plainContent: Content? {
        let content = content.load(ordering: .acquiring)
        return content.isPlain ? content : nil
    }

    /// The body, which nobody else has any more, if the content is plain and has one.
    @inline(__always)
    func takePlainBody() -> Parcel? {
        // Safety: the word owned it.
        unsafe (changePlain { unsafe $0.takeBody() } ?? nil).map { unsafe Parcel(taking: $0) }
    }

    /// `Mutable.takeCompletion` of a plain content, whose handle is pinned for that; else nil.
    @inline(__always)
    func takePlainCompletion() -> (Due, isAwaited: Bool)? {
        changePlain { content in
            guard content.hasCompletion else { return (.nothing, false) }
            guard content.isPosted else { return (.waits, false) }
            content.dropCompletion()
            return (.completes(isPinned: true), true)
        }
    }

    /// `Mutable.takeEnd` of a plain content; else nil.
    @inline(__always)
    func takePlainEnd() -> (completing: StateReference?, others: [StateReference])? {
        changePlain { content in
            guard content.hasCompletion, !content.isPosted else { return (nil, []) }
            content.post()
            return (.home, [])
        }
    }
}
