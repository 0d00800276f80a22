@_spi(Locking) import OpEngine
import Synchronization

/// Changes of an inline state, and its move out of line.
extension LuaOperation {
    /// Moves the state out of line, unless another thread has done so.
    @inline(never)
    func moveOutOfLine() -> UnsafeMutablePointer<OutOfLineState> {
        // The lock is held until the block has taken over what the word owned. After the exchange nobody else can read the body of the old
        // word.
        let made = unsafe OutOfLineState.make(Fields(bodies: .empty))
        unsafe made.pointee.lock.lock()
        var old = stateWord.load(ordering: .acquiring)
        while true {
            if let outOfLine = unsafe old.outOfLine {
                unsafe made.pointee.lock.unlock()
                unsafe OutOfLineState.destroy(made)
                return unsafe outOfLine
            }
            let (exchanged, current) = stateWord.compareExchange(
                expected: old, desired: unsafe StateWord(made), ordering: .acquiringAndReleasing)
            if exchanged { break }
            old = current
        }
        unsafe OutOfLineState.fields(of: made).pointee =
            old == .nothing ? Fields(bodies: origin.bodies) : Fields(of: old, body: unsafe old.body.map { unsafe Parcel(taking: $0) })
        unsafe made.pointee.lock.unlock()
        return unsafe made
    }

    /// Changes the word in one atomic step. Returns nil, and changes nothing, if the state is out of line. `change` may run more than once
    /// and must be pure.
    @inline(__always)
    func changeInline<Result>(_ change: (inout StateWord) -> Result) -> Result? {
        var old = stateWord.load(ordering: .acquiring)
        while old.isInline {
            var new = old
            let result = change(&new)
            if new == old { return result }
            let (exchanged, current) = stateWord.weakCompareExchange(
                expected: old, desired: new, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
            if exchanged { return result }
            old = current
        }
        return nil
    }

    /// Nil if the state is out of line.
    @inline(__always)
    var inlineState: StateWord? {
        let word = stateWord.load(ordering: .acquiring)
        return word.isInline ? word : nil
    }

    /// Takes the body out of an inline state; nil if there is none, or the state is out of line.
    @inline(__always)
    func takeInlineBody() -> Parcel? {
        // Safety: the word owned a reference to the body.
        unsafe (changeInline { unsafe $0.takeBody() } ?? nil).map { unsafe Parcel(taking: $0) }
    }

    /// `Fields.takeCompletion` for an inline state; nil if the state is out of line. The handle is pinned for the completion block.
    @inline(__always)
    func takeInlineCompletion() -> (Due, isAwaited: Bool)? {
        changeInline { word in
            guard word.hasCompletion else { return (.nothing, false) }
            guard word.isPosted else { return (.waits, false) }
            word.dropCompletion()
            return (.completes(isPinned: true), true)
        }
    }

    /// `Fields.takeEnd` for an inline state; nil if the state is out of line.
    @inline(__always)
    func takeInlineEnd() -> (completing: StateReference?, others: [StateReference])? {
        changeInline { word in
            guard word.hasCompletion, !word.isPosted else { return (nil, []) }
            word.post()
            return (.home, [])
        }
    }
}
