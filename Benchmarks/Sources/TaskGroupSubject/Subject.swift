import Measuring

@main struct Subject {
    static func main() async {
        await measure([
            "W1": { count in await flood(count) { _ in nil } },
            "W3": { count in await fan(count) },
            "W4": { count in await layered(count) },
            "W5": { count in await ping(count) },
            "W6": { count in await serial(count) },
            "W7": { count in
                let priorities: [TaskPriority] = [.background, .utility, .low, .medium, .high]
                return await flood(count) { priorities[$0 % 5] }
            },
            "W8": { count in await speedUp(count) },
        ])
    }
}

private func flood(_ count: Int, priority: @Sendable (Int) -> TaskPriority?) async -> Double {
    let start = ContinuousClock.now
    await withTaskGroup { group in
        for index in 0..<count { group.addTask(priority: priority(index)) {} }
    }
    return nanoseconds(since: start) / Double(count)
}

private func fan(_ count: Int) async -> Double {
    let start = ContinuousClock.now
    let first = Task {}
    await withTaskGroup { group in
        for _ in 0..<count { group.addTask { await first.value } }
    }
    await Task {}.value
    return nanoseconds(since: start) / Double(count)
}

private func layered(_ count: Int) async -> Double {
    let (layerCount, width) = layers(of: count)
    let start = ContinuousClock.now
    var before: [Task<Void, Never>] = [], layer: [Task<Void, Never>] = []
    for _ in 0..<layerCount {
        for index in 0..<width {
            if before.isEmpty {
                layer.append(Task {})
            } else {
                let (first, second, third) = dependencies(of: index, width: width)
                let tasks = (before[first], before[second], before[third])
                layer.append(
                    Task {
                        await tasks.0.value
                        await tasks.1.value
                        await tasks.2.value
                    })
            }
        }
        before.removeAll(keepingCapacity: true)
        swap(&before, &layer)
    }
    for task in before { await task.value }
    return nanoseconds(since: start) / Double(layerCount * width)
}

private func ping(_ count: Int) async -> Double {
    var times: [Double] = []
    for _ in 0..<count {
        let start = ContinuousClock.now
        await Task.detached {}.value
        times.append(nanoseconds(since: start))
    }
    times.sort()
    return times[count / 2] / 1000
}

private actor Serial {
    private var count = 0
    func run() { count += 1 }
}

private func serial(_ count: Int) async -> Double {
    let serial = Serial()
    let start = ContinuousClock.now
    await withTaskGroup { group in
        for _ in 0..<count { group.addTask { await serial.run() } }
    }
    return nanoseconds(since: start) / Double(count)
}

private func speedUp(_ count: Int) async -> Double {
    func time(on workers: Int) async -> Double {
        let start = ContinuousClock.now
        await withTaskGroup { group in
            for worker in 0..<workers {
                group.addTask { for index in 0..<count where index % workers == worker { _ = compute() } }
            }
        }
        return nanoseconds(since: start)
    }
    return await time(on: 1) / time(on: 2)
}
