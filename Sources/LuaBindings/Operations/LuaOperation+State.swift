import OpEngine
import OpPlatform
import Synchronization

/// The state of an operation.
///
/// It takes one of three forms. An operation moves down this list and never up:
///
/// | form | where the state is | who may change it |
/// |---|---|---|
/// | deferred | In the handle: the function, its arguments, the completion block. There is no `LuaOperation`. | The state's thread. |
/// | inline | In `stateWord`: one body or a few results, and whether there is a completion block. | Any thread, with `changeInline`. |
/// | out of line | In a block of memory whose address is `stateWord`. | Any thread, with the block's lock: `withFields`. |
///
/// - Deferred becomes inline when the operation is added to a queue (`addDeferredOperation`), and out of line when a script or the host
///   asks for anything else.
/// - Inline becomes out of line when somebody stores something that the word has no room for (`moveOutOfLine`).
///
/// Most operations of a script are made, added, run and finished without ever needing the block of memory or its lock. The functions here
/// work with both of the forms that an operation has.
extension LuaOperation {
    /// Moves the state out of line if necessary, and calls `body` with the fields while the lock is held.
    @inline(__always)
    func withFields<Result>(_ body: (inout Fields) -> Result) -> Result { unsafe with(outOfLine, body) }

    /// Like `withFields`, but returns nil if the state is inline.
    @inline(__always)
    func ifOutOfLine<Result>(_ body: (inout Fields) -> Result) -> Result? {
        guard let outOfLine = unsafe stateWord.load(ordering: .acquiring).outOfLine else { return nil }
        return unsafe with(outOfLine, body)
    }

    /// Whether nothing has been stored that the word has no room for.
    var isInline: Bool { stateWord.load(ordering: .acquiring).isInline }

    /// Whether the bodies are still those of the origin, and nothing else is known of the operation.
    @inline(__always)
    var isUnchanged: Bool { stateWord.load(ordering: .acquiring) == .nothing }

    /// Takes the body out of an inline state; nil if there is none, or the state is out of line.
    @inline(__always)
    func takeInlineBody() -> Parcel? {
        // Safety: the word owned a reference to the body.
        unsafe (changeInline { unsafe $0.takeBody() } ?? nil).map { unsafe Parcel(taking: $0) }
    }

    /// Releases the bodies, because they will never run.
    func dropBodies() {
        let body = takeInlineBody(), bodies = ifOutOfLine { exchange(&$0.bodies, with: .empty) }
        withExtendedLifetime((body, bodies)) {}
        dropFunctions()
    }

    /// Releases what only another attempt would need, and the conditions.
    func dropFunctions() {
        let dropped = ifOutOfLine { $0.dropFunctions() }
        withExtendedLifetime(dropped) {}
    }

    /// Stores what a body has returned.
    @inline(__always)
    func setResults(_ results: ReturnedValues, ofBodyAt index: Int) {
        if changeInline({ $0.setResults(results) }) ?? false { return }
        withFields { $0.setResults(results, ofBodyAt: index) }
    }

    /// What the bodies have returned so far.
    var storedResults: SmallArray<ReturnedValues?> {
        stateWord.load(ordering: .acquiring).results.map { .one($0) } ?? ifOutOfLine { $0.results } ?? .empty
    }

    /// The completion block that a script has set; nil if there is none.
    @inline(__always)
    var completion: Completion? {
        let word = stateWord.load(ordering: .acquiring)
        guard word.isInline else { return withFields { $0.completion } }
        return word.hasCompletion ? Completion(state: .home, isAwaited: true, isPosted: word.isPosted) : nil
    }

    /// Takes the completion block of a state if the operation has finished, and tells whether the state counted it as awaited.
    @inline(__always)
    func takeCompletion(in state: StateReference) -> (Due, isAwaited: Bool) {
        let taken = changeInline { word -> (Due, isAwaited: Bool) in
            guard word.hasCompletion else { return (.nothing, false) }
            guard word.isPosted else { return (.waits, false) }
            word.dropCompletion()
            return (.completes(isPinned: true), true)  // the handle is pinned for the completion block
        }
        return taken ?? withFields { $0.takeCompletion(in: state) }
    }

    /// Records the end. Returns the state of the completion block, if it has not been told yet, and the other states that keep a handle.
    @inline(__always)
    func takeEnd() -> (completing: StateReference?, others: [StateReference]) {
        let taken = changeInline { word -> (completing: StateReference?, others: [StateReference]) in
            guard word.hasCompletion, !word.isPosted else { return (nil, []) }
            word.post()
            return (.home, [])
        }
        return taken ?? withFields { $0.takeEnd() }
    }

    // MARK: the two forms

    /// Changes an inline state in one atomic step. Returns nil, and changes nothing, if the state is out of line. `change` may run more
    /// than once and must be pure.
    @inline(__always)
    private func changeInline<Result>(_ change: (inout StateWord) -> Result) -> Result? {
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

    @inline(__always)
    private func with<Result>(_ outOfLine: UnsafeMutablePointer<OutOfLineState>, _ body: (inout Fields) -> Result) -> Result {
        unsafe outOfLine.pointee.lock.lock()
        defer { unsafe outOfLine.pointee.lock.unlock() }
        return unsafe body(&OutOfLineState.fields(of: outOfLine).pointee)
    }

    @inline(__always)
    private var outOfLine: UnsafeMutablePointer<OutOfLineState> {
        unsafe stateWord.load(ordering: .acquiring).outOfLine ?? moveOutOfLine()
    }

    /// Moves the state out of line, unless another thread has done so.
    @inline(never)
    private func moveOutOfLine() -> UnsafeMutablePointer<OutOfLineState> {
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
}
