import Dispatch
import Measuring
import Synchronization

/// Dependencies as programs write them for libdispatch: each node counts its unfinished dependencies, and the last to end submits it.
final class Node: Sendable {
    private let waitsFor = Atomic<Int>(1)
    private let dependents = Mutex<[Node]?>([])

    func depend(on other: Node) {
        other.dependents.withLock { dependents in
            guard dependents != nil else { return }
            dependents?.append(self)
            // The count grows before the dependency can end.
            waitsFor.wrappingAdd(1, ordering: .relaxed)
        }
    }

    /// Call this once for each node after adding its dependencies. Each dependency calls it when it ends.
    func release(to graph: Graph) {
        if waitsFor.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue > 0 { return }
        graph.queue.async { self.run(graph) }
    }

    private func run(_ graph: Graph) {
        let released = dependents.withLock { $0.take() } ?? []
        for node in released { node.release(to: graph) }
        graph.group.leave()
    }
}

struct Graph: Sendable {
    let queue = DispatchQueue(label: "graph", attributes: .concurrent)
    let group = DispatchGroup()

    func add(_ node: Node) {
        group.enter()
        node.release(to: self)
    }

    static func chain(_ count: Int) -> Double {
        let graph = Graph()
        let first = Node()
        var nodes: [Node] = []
        for _ in 0..<count {
            let node = Node()
            node.depend(on: nodes.last ?? first)
            nodes.append(node)
        }
        for node in nodes { graph.add(node) }
        return nanoseconds {
            graph.add(first)
            graph.group.wait()
        } / Double(count)
    }

    static func fan(_ count: Int) -> Double {
        let graph = Graph()
        return nanoseconds {
            let (first, last) = (Node(), Node())
            for _ in 0..<count {
                let node = Node()
                node.depend(on: first)
                last.depend(on: node)
                graph.add(node)
            }
            graph.add(last)
            graph.add(first)
            graph.group.wait()
        } / Double(count)
    }

    static func layered(_ count: Int) -> Double {
        let graph = Graph()
        let (layerCount, width) = layers(of: count)
        return nanoseconds {
            var before: [Node] = [], layer: [Node] = []
            for _ in 0..<layerCount {
                for index in 0..<width {
                    let node = Node()
                    if !before.isEmpty {
                        let (first, second, third) = dependencies(of: index, width: width)
                        node.depend(on: before[first])
                        node.depend(on: before[second])
                        node.depend(on: before[third])
                    }
                    graph.add(node)
                    layer.append(node)
                }
                before.removeAll(keepingCapacity: true)
                swap(&before, &layer)
            }
            graph.group.wait()
        } / Double(layerCount * width)
    }
}
