/// How long a worker that lingers at a queue waits after it was called, so that more can come.
///
/// A worker that is quicker than the thread that adds would take each operation as soon as it is there, and the two would take the queue's
/// lines of memory from each other for each: that costs as much as adding. So when it has been called quickly several times, the worker
/// lets some operations come together; not where somebody is told of the end of one, perhaps a thread that waits for it.
struct Patience {
    /// A call after fewer looks than this, some 3 µs, is quick.
    private static let quick = 128
    /// How often in a row calls have to be quick.
    private static let times = 8
    /// Some 6 µs: about as long as it takes to wake a thread.
    private static let most = 256

    private var quickCalls = 0

    /// For how many looks to wait now.
    var looks: Int { quickCalls < Patience.times ? 0 : Patience.most }

    /// The worker was called, after so many looks.
    mutating func wasCalled(after looks: Int) { quickCalls = looks < Patience.quick ? min(quickCalls + 1, Patience.times) : 0 }

    /// It was not called, or has told somebody.
    mutating func end() { quickCalls = 0 }
}
