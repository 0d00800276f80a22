@_spi(Locking) import OpEngine
import Synchronization

/// Changes of a state that is inline, and the step from there to out of line.
extension LuaOperation {
    /// Moves the state out of line, unless another thread has.
    @inline(never)
    func moveOutOfLine() -> UnsafeMutablePointer<OutOfLineState> {
        // Locked until the block has taken over what the word owned. Nobody else can read the old word's body after the exchange.
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
        unsafe made.pointee.fields =
            old == .nothing ? Fields(bodies: origin.bodies) : Fields(of: old, body: unsafe old.body.map { unsafe Parcel(taking: $0) })
        unsafe made.pointee.lock.unlock()
        return unsafe made
    }

    /// Changes the word in one atomic step. Nil, and nothing has changed, if the state is out of line. `change` may run more than once and must
    /// be pure.
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
        // Safety: the word owned it.
        unsafe (changeInline { unsafe $0.takeBody() } ?? nil).map { unsafe Parcel(taking: $0) }
    }

    /// `Fields.takeCompletion` of an inline state; nil if the state is out of line. The handle is pinned for the completion block.
    @inline(__always)
    func takeInlineCompletion() -> (Due, isAwaited: Bool)? {
        changeInline { word in
            guard word.hasCompletion else { return (.nothing, false) }
            guard word.isPosted else { return (.waits, false) }
            word.dropCompletion()
            return (.completes(isPinned: true), true)
        }
    }

    /// `Fields.takeEnd` of an inline state; nil if the state is out of line.
    @inline(__always)
    func takeInlineEnd() -> (completing: StateReference?, others: [StateReference])? {
        changeInline { word in
            guard word.hasCompletion, !word.isPosted else { return (nil, []) }
            word.post()
            return (.home, [])
        }
    }
}
