import Dispatch
import Measuring

@main struct Subject {
    static func main() {
        measure([
            "W1": { flood($0, on: DispatchQueue(label: "W1", attributes: .concurrent)) },
            "W1s": { submit($0).time },
            "W1s-bytes": { submit($0).bytes },
            "W2": { count in Graph.chain(count) },
            "W3": { count in Graph.fan(count) },
            "W4": { count in Graph.layered(count) },
            "W5": { ping($0) },
            "W6": { flood($0, on: DispatchQueue(label: "W6")) },
            "W7": { priorities($0) },
            "W8": { speedUp($0) },
            "W12": { producers($0) },
            "W13": { count in
                let queue = DispatchQueue(label: "W13", attributes: .concurrent)
                return nanoseconds {
                    for _ in 0..<count { queue.async { _ = computeBriefly() } }
                    queue.sync(flags: .barrier) {}
                } / Double(count)
            },
        ])
    }
}

private func flood(_ count: Int, on queue: DispatchQueue) -> Double {
    nanoseconds {
        for _ in 0..<count { queue.async {} }
        queue.sync(flags: .barrier) {}
    } / Double(count)
}

private func submit(_ count: Int) -> (time: Double, bytes: Double) {
    let queue = DispatchQueue(label: "W1s", attributes: .concurrent)
    queue.suspend()
    let before = allocatedBytes()
    let time = nanoseconds { for _ in 0..<count { queue.async {} } }
    let bytes = allocatedBytes() - before
    queue.resume()
    queue.sync(flags: .barrier) {}
    return (time / Double(count), bytes / Double(count))
}

private func ping(_ count: Int) -> Double {
    let queue = DispatchQueue(label: "W5", attributes: .concurrent)
    return medianMicroseconds(count) {
        let work = DispatchWorkItem {}
        queue.async(execute: work)
        work.wait()
    }
}

/// The five global queues stand for the five priorities of an operation queue.
private func priorities(_ count: Int) -> Double {
    let classes: [DispatchQoS.QoSClass] = [.background, .utility, .default, .userInitiated, .userInteractive]
    let queues = classes.map { DispatchQueue.global(qos: $0) }
    let group = DispatchGroup()
    return nanoseconds {
        for index in 0..<count { queues[index % 5].async(group: group) {} }
        group.wait()
    } / Double(count)
}

private func producers(_ count: Int) -> Double {
    let queue = DispatchQueue(label: "W12", attributes: .concurrent)
    return nanoseconds {
        onThreads(4) { _ in for _ in 0..<count / 4 { queue.async {} } }
        queue.sync(flags: .barrier) {}
    } / Double(count)
}

private func speedUp(_ count: Int) -> Double {
    func time(on queue: DispatchQueue) -> Double {
        nanoseconds {
            for _ in 0..<count { queue.async { _ = compute() } }
            queue.sync(flags: .barrier) {}
        }
    }
    return time(on: DispatchQueue(label: "one")) / time(on: DispatchQueue(label: "two", attributes: .concurrent))
}
