/// How long a worker that lingers at a queue waits after it was called, so that more can come.
///
/// A worker that is quicker than the thread that adds would take each operation as soon as it is there, and the two would take the queue's
/// lines of memory, and those of the operations, from each other for each: that costs as much as adding, and several times that where the
/// two processors share no cache. So when it has found work quickly several times, the worker lets some operations come together, and more
/// of them as that goes on. Where none come, somebody waits for those that are there: then it takes more times until the next attempt.
struct Patience {
    /// After fewer looks than this, some 3 µs, is quickly.
    private static let quick = 128
    /// How many times in a row, at least and at most.
    private static let timesAtLeast = 8
    private static let timesAtMost = 4096
    /// Some 6 µs: about as long as it takes to wake a thread on the same processor.
    private static let least = 256
    /// Some 24 µs: less than it takes on another one.
    private static let most = 1024

    private var quickTimes = 0
    private var times = timesAtLeast

    /// For how many looks to wait now.
    private(set) var looks = 0

    /// It was called, or found work elsewhere, after so many looks.
    mutating func foundWork(after looks: Int) {
        if looks >= Patience.quick {
            if self.looks <= Patience.least { foundNothing() } else { self.looks /= 2 }
        } else if self.looks == 0 {
            quickTimes += 1
            if quickTimes == times { self.looks = Patience.least }
        }
    }

    /// It has waited. True: operations were added to the last.
    mutating func hasWaited(andMoreCame moreCame: Bool) {
        if moreCame {
            times = Patience.timesAtLeast
            looks = min(2 * looks, Patience.most)
        } else {
            times = min(2 * times, Patience.timesAtMost)
            (quickTimes, looks) = (0, 0)
        }
    }

    /// Nothing came while it looked. What was learnt of who adds counts less.
    mutating func foundNothing() {
        times = max(times / 2, Patience.timesAtLeast)
        (quickTimes, looks) = (0, 0)
    }
}
