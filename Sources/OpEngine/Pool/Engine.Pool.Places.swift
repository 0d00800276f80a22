import OpPlatform
import Synchronization

/// Lends an engine places beyond its first: GNU make's jobserver. Both methods return at once.
package protocol PlaceSource: AnyObject, Sendable {
    /// Takes a place if one is free.
    func take() -> Bool
    /// Gives a taken place back.
    func give()
}

extension Engine {
    /// A request of a worker for places, which were not free.
    package final class PlaceRequest: Sendable {
        let count: Int
        fileprivate let inbox: Inbox
        private let granted = Atomic<Bool>(false)
        /// Whether the pool keeps the places for the worker. The engine wakes the worker's inbox when that becomes true.
        package var isGranted: Bool { granted.load(ordering: .acquiring) }

        fileprivate init(_ count: Int, inbox: Inbox) { (self.count, self.inbox) = (count, inbox) }

        fileprivate func grant() {
            granted.store(true, ordering: .releasing)
            inbox.wake()
        }
    }

    // MARK: Places of programs

    /// The number of operations that may run at once, as long as no monitor allows more. Valid once the engine has run an operation.
    package var placeCount: Int { pool.withLock { $0.target - $0.surplus } }

    /// Takes `count` places, at most `placeCount`, for a program that the operation on this worker is about to start. The worker's own place is one of
    /// them. The others must be given back with `givePlaces`. On the worker's thread.
    ///
    /// - Returns: nil if the places are taken. Otherwise a request: wait until it is granted, and then call `claim`, or give up with
    ///   `withdraw`. The wait must not keep the worker's place, so that two such waits cannot hinder each other. Requests are granted in the order
    ///   of asking, and before further operations start.
    package func takePlaces(_ count: Int, for worker: Worker) -> PlaceRequest? {
        let (request, busy) = pool.withLock { pool -> (PlaceRequest?, [Worker]) in
            pool.didReturn(worker)
            worker.hasUsedPlace.store(true, ordering: .relaxed)
            if pool.takePlaces(count) { return (nil, []) }
            let request = PlaceRequest(count, inbox: worker.inbox)
            pool.add(request)
            return (request, pool.busy)
        }
        guard let request else { return nil }
        hold()
        // A worker that finds a job after its operation checks whether too many workers are awake.
        for other in busy where other !== worker { other.inbox.post {} }
        return request
    }

    /// Ends the wait for a granted request, whose places the caller has from now on.
    package func claim(_ request: PlaceRequest) {
        // The worker is awake again, so it counts by itself.
        givePlaces(1)
        release()
    }

    /// Ends the wait for a request without its places.
    package func withdraw(_ request: PlaceRequest) {
        let wake = pool.withLock { pool -> Pool.Wake in
            pool.withdraw(request)
            return pool.placesWereGiven(self)
        }
        perform(wake)
        release()
    }

    /// Gives back places besides the worker's own. From any thread.
    package func givePlaces(_ count: Int) {
        if count == 0 { return }
        let wake = pool.withLock { pool -> Pool.Wake in
            pool.places.reserved -= count
            return pool.placesWereGiven(self)
        }
        perform(wake)
    }

    /// Takes places from `source` from now on, except for the first one, which the engine has by itself. Call this once.
    package func takePlaces(from source: any PlaceSource) {
        pool.withLock { pool in
            if pool.places.source != nil { fatalError("opscript bug: an engine has two sources of places") }
            pool.places.source = source
            pool.placesHaveChanged()
            _ = pool.hasPlaces(pool.awake)
        }
    }

    /// Whether work waits because the source of places has none to lend.
    package var awaitsSource: Bool { pool.withLock { $0.isShortOfWorkers && $0.places.missing(of: $0.target - $0.places.withheld) > 0 } }

    /// Whether work waits because each worker that may be awake waits for a program in its place.
    package var isEveryPlaceHeld: Bool {
        pool.withLock { pool in
            pool.isShortOfWorkers && !pool.isAnyWorkerSearching && pool.busy.allSatisfy { $0.waitsInPlace.load(ordering: .relaxed) }
        }
    }
}

extension Engine.Pool {
    /// The places of the workers that are awake, and those of programs.
    struct Places {
        /// The places that programs have besides their workers' own, and those that are kept for granted requests.
        var reserved = 0
        /// In the order of asking.
        fileprivate var requests: [Engine.PlaceRequest] = []
        /// Nil if the engine has all its places by itself.
        var source: (any PlaceSource)?
        /// The number of places that were taken from `source`.
        fileprivate var borrowed = 0

        var hasRequests: Bool { !requests.isEmpty }
        /// The places that no further operation gets.
        var withheld: Int { reserved + (requests.first?.count ?? 0) }
        /// The places that the source has not lent, of so many.
        func missing(of count: Int) -> Int { source == nil ? 0 : max(0, count - 1 - borrowed) }
    }

    /// Whether so many workers may be awake. Borrows places for them if there is a source.
    @inline(__always)
    mutating func hasPlaces(_ count: Int) -> Bool { count <= limit || places.source != nil && borrowPlaces(for: count) }

    @inline(never)
    private mutating func borrowPlaces(for count: Int) -> Bool {
        if count > target - places.withheld { return false }
        while count > limit {
            if !borrowPlace() { return false }
            placesHaveChanged()
        }
        return true
    }

    private mutating func borrowPlace() -> Bool {
        guard places.source?.take() == true else { return false }
        places.borrowed += 1
        return true
    }

    /// Gives the source the places back that are not used.
    mutating func returnUnusedPlaces() {
        guard let source = places.source else { return }
        let used = max(1, awake + places.reserved)
        if 1 + places.borrowed <= used { return }
        while 1 + places.borrowed > used {
            places.borrowed -= 1
            source.give()
        }
        placesHaveChanged()
    }

    /// Takes the places of a program that the calling worker starts. The worker is awake.
    fileprivate mutating func takePlaces(_ count: Int) -> Bool {
        guard places.requests.isEmpty, reserve(count - 1, besides: awake) else { return false }
        placesHaveChanged()
        return true
    }

    /// Reserves places if they are free besides so many that are awake. Borrows all of them or none, unless the
    /// engine runs nothing else.
    private mutating func reserve(_ count: Int, besides awake: Int) -> Bool {
        let used = awake + places.reserved + count
        if used > target - surplus { return false }
        while places.missing(of: used) > 0 {
            if !borrowPlace() {
                // Others may keep the rest as long as this engine runs nothing.
                if awake + places.reserved == 0 { break }
                returnUnusedPlaces()
                return false
            }
        }
        places.reserved += count
        return true
    }

    fileprivate mutating func add(_ request: Engine.PlaceRequest) {
        places.requests.append(request)
        placesHaveChanged()
    }

    fileprivate mutating func withdraw(_ request: Engine.PlaceRequest) {
        if request.isGranted {
            places.reserved -= request.count
        } else {
            places.requests.removeAll { $0 === request }
        }
    }

    /// Grants the requests for which places are free now.
    mutating func grantRequests() {
        while let first = places.requests.first, reserve(first.count, besides: awake) {
            places.requests.removeFirst()
            placesHaveChanged()
            first.grant()
        }
    }

    /// Uses places that have become free.
    fileprivate mutating func placesWereGiven(_ engine: Engine) -> Wake {
        placesHaveChanged()
        grantRequests()
        return wakeIfNeeded(engine)
    }

    /// Looks for places that the source may have again, and for those of workers that were found blocked. On the monitor's thread.
    mutating func retryPlaces(_ engine: Engine) -> Wake {
        if places.source == nil && places.requests.isEmpty { return .none }
        grantRequests()
        return wakeIfNeeded(engine)
    }
}
