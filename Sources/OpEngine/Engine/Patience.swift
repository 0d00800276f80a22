/// How long a worker that lingers at a queue waits after it was called, so that more can come.
///
/// A worker that is quicker than the thread that adds would take each operation as soon as it is there, and the two would take the queue's
/// lines of memory, and those of the operations, from each other for each: that costs as much as adding, and several times that where the
/// two processors share no cache. So when it has been called quickly several times, the worker lets some operations come together, and more
/// of them as that goes on; not where somebody is told of the end of one, perhaps a thread that waits for it.
struct Patience {
    /// A call after fewer looks than this, some 3 µs, is quick.
    private static let quick = 128
    /// How often in a row calls have to be quick.
    private static let times = 8
    /// Some 6 µs: about as long as it takes to wake a thread on the same processor.
    private static let least = 256
    /// Some 24 µs: less than it takes on another one.
    private static let most = 1024

    private var quickCalls = 0

    /// For how many looks to wait now.
    private(set) var looks = 0

    /// It was called, after so many looks: it waits twice as long as before, or half as long.
    mutating func wasCalled(after looks: Int) {
        if looks >= Patience.quick {
            if self.looks <= Patience.least { end() } else { self.looks /= 2 }
        } else if quickCalls < Patience.times {
            quickCalls += 1
            if quickCalls == Patience.times { self.looks = Patience.least }
        } else {
            self.looks = min(2 * self.looks, Patience.most)
        }
    }

    /// It was not called, or has told somebody.
    mutating func end() { (quickCalls, looks) = (0, 0) }
}
