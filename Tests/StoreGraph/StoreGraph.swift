import Glibc
public import OpStore
import Synchronization
public import TestSupport

/// A build of nodes that need sources and each other, with all that a step can have. The output of a node depends only on what it needs,
/// so two runs must make the same bytes.
public struct StoreGraph: Sendable {
    struct Node: Sendable {
        var sources: [Int]
        var dependencies: [Int]
        /// Whether all but the first source are found through a depfile.
        var hasDepfile: Bool
        var hasPattern: Bool
        /// Whether it has a value and no outputs.
        var memoizes: Bool
        var outputCount: Int
        var size: Int
    }

    /// The events of a node.
    public enum Event: Hashable, Sendable {
        /// It was found in the store.
        case skipped(Int)
        /// Its body begins.
        case runs(Int, String)
        /// It is recorded.
        case isDone(Int)
        case isNotRecorded(Int, String)
    }

    let nodes: [Node]
    let levels: [[Int]]
    let sourceCount: Int

    /// Makes a graph, the same for each seed and number.
    public init(seed: UInt64, nodeCount: Int) {
        var random = SeededGenerator(seed: seed)
        let sourceCount = max(2, nodeCount / 2)
        var nodes: [Node] = [], depths: [Int] = []
        for index in 0..<nodeCount {
            let dependencies =
                index == 0
                ? [] : Set((0..<Int.random(in: 0...2, using: &random)).map { _ in Int.random(in: 0..<index, using: &random) }).sorted()
            let sources = Set((0..<Int.random(in: 1...3, using: &random)).map { _ in Int.random(in: 0..<sourceCount, using: &random) })
                .sorted()
            let memoizes = Int.random(in: 0..<4, using: &random) == 0
            nodes.append(
                Node(
                    sources: sources, dependencies: dependencies, hasDepfile: !memoizes && Bool.random(using: &random),
                    hasPattern: Int.random(in: 0..<6, using: &random) == 0, memoizes: memoizes,
                    outputCount: memoizes ? 0 : Int.random(in: 1...2, using: &random), size: Int.random(in: 1...9000, using: &random)))
            depths.append((dependencies.map { depths[$0] }.max() ?? -1) + 1)
        }
        self.sourceCount = sourceCount
        self.nodes = nodes
        var levels = [[Int]](repeating: [], count: (depths.max() ?? 0) + 1)
        for (index, depth) in depths.enumerated() { levels[depth].append(index) }
        self.levels = levels
    }

    /// Whether a node makes files.
    public func hasOutputs(_ node: Int) -> Bool { nodes[node].outputCount > 0 }

    // MARK: Changes by a test

    /// Returns when the clock that files get their times from has gone on: before that, a file that was just written may as well have been
    /// written after a body began.
    public static func waitForTick() {
        func time() -> Int {
            var now = timespec()
            clock_gettime(CLOCK_REALTIME_COARSE, &now)
            return now.tv_sec * 1_000_000_000 + now.tv_nsec
        }
        var written = timespec()
        clock_gettime(CLOCK_REALTIME, &written)
        while time() <= written.tv_sec * 1_000_000_000 + written.tv_nsec {}
    }

    /// The files that nodes depend on: sources, settings that are no inputs but components, and what a pattern matches.
    public func writeSources(in folder: String, using random: inout SeededGenerator) {
        mkdir(folder, 0o777)
        mkdir(folder + "/p", 0o777)
        for index in 0..<sourceCount { Self.write("source \(index) \(random.next())", to: "\(folder)/s\(index)") }
        for index in nodes.indices { Self.write("setting \(index)", to: "\(folder)/c\(index)") }
        Self.write("one", to: folder + "/p/1.in")
        Self.waitForTick()
    }

    /// Changes something that nodes depend on, or what they have made. Returns what.
    public func edit(in folder: String, using random: inout SeededGenerator) -> String {
        defer { Self.waitForTick() }
        let source = "s\(Int.random(in: 0..<sourceCount, using: &random))"
        let node = Int.random(in: nodes.indices, using: &random)
        switch Int.random(in: 0..<9, using: &random) {
        case 0, 1:
            // Of few versions, so that some come back.
            Self.write("version \(Int.random(in: 0..<3, using: &random))", to: "\(folder)/\(source)")
            return "changed \(source)"
        case 2 where nodes.allSatisfy({ !$0.hasDepfile || $0.sources.dropFirst().allSatisfy { "s\($0)" != source } }):
            // A depfile does not name absent files, so the store would not notice that one returns.
            unlink("\(folder)/\(source)")
            return "removed \(source)"
        case 3:
            Self.write("setting \(Int.random(in: 0..<3, using: &random))", to: "\(folder)/c\(node)")
            return "changed the setting of \(node)"
        case 4:
            let name = "p/\(Int.random(in: 0..<3, using: &random)).in"
            if unlink("\(folder)/\(name)") != 0 { Self.write(name, to: "\(folder)/\(name)") }
            return "added or removed \(name)"
        case 5 where !nodes[node].memoizes:
            unlink("\(folder)/o\(node)_0")
            return "removed an output of \(node)"
        case 6 where !nodes[node].memoizes:
            // As many bytes as there were.
            if var bytes = Self.read("\(folder)/o\(node)_0") {
                bytes[bytes.count / 2] ^= 1
                Self.write(bytes, to: "\(folder)/o\(node)_0")
            }
            return "damaged an output of \(node)"
        case 7:
            if let bytes = Self.read("\(folder)/\(source)") { Self.write(bytes, to: "\(folder)/\(source)") }
            return "wrote \(source) again"
        default:
            if let bytes = Self.read("\(folder)/\(source)") {
                unlink("\(folder)/\(source)")
                Self.write(bytes, to: "\(folder)/\(source)")
            }
            return "replaced \(source)"
        }
    }

    // MARK: Running

    /// Runs all nodes that must run, each level on some threads. Returns everything that they have made, by name.
    public func run(
        in folder: String, store: Store, threads: Int, notify: @escaping @Sendable (Event) -> Void
    ) throws -> [String: [UInt8]] {
        let values = Locked<[Int: [UInt8]]>([:])
        let works = try nodes.indices.map { try store.plan(step($0, in: folder)) }
        for level in levels {
            let next = Atomic<Int>(0)
            onThreads(min(threads, level.count)) { _ in
                while true {
                    let position = next.wrappingAdd(1, ordering: .relaxed).oldValue
                    if position >= level.count { return }
                    let index = level[position]
                    let inputs = values.withLock { $0 }
                    let value = process(index, works[index], in: folder, inputs, notify)
                    if let value { values.withLock { $0[index] = value } }
                }
            }
        }
        for work in works { work.end() }
        var made: [String: [UInt8]] = [:]
        for (index, value) in values.withLock({ $0 }) { made["value \(index)"] = value }
        for index in nodes.indices { for name in outputs(index) { made[name] = Self.read("\(folder)/\(name)") } }
        return made
    }

    private func outputs(_ index: Int) -> [String] { (0..<nodes[index].outputCount).map { "o\(index)_\($0)" } }

    /// The files that a node reads.
    private func inputs(_ index: Int) -> [String] { nodes[index].sources.map { "s\($0)" } + nodes[index].dependencies.flatMap(outputs) }

    private func step(_ index: Int, in folder: String) -> Step {
        let node = nodes[index]
        var step = Step(name: "node \(index)", identity: "node \(index)", components: [])
        // Each node has code of its own. Otherwise two that need the same would be the same work.
        step.components = [
            Step.Component(label: "function", digest: Self.digest(Array("node \(index)".utf8))),
            Step.Component(label: "setting", digest: Self.digest(Self.read("\(folder)/c\(index)") ?? [])),
        ]
        step.inputs = (node.hasDepfile ? Array(inputs(index).prefix(1)) : inputs(index)) + (node.hasPattern ? ["p/*.in"] : [])
        step.outputs = outputs(index)
        step.depfile = node.hasDepfile ? "o\(index).d" : nil
        step.memoizes = node.memoizes
        step.directory = folder
        return step
    }

    private func process(
        _ index: Int, _ work: Work, in folder: String, _ values: [Int: [UInt8]], _ notify: (Event) -> Void
    ) -> [UInt8]? {
        let results = nodes[index].dependencies.compactMap { dependency in
            values[dependency].map { Step.Component(label: "result of \(dependency)", digest: Self.digest($0)) }
        }
        switch work.lookUp(adding: results) {
        case .hit(let hit):
            notify(.skipped(index))
            return hit.value
        case .miss(let reason):
            if let hit = work.begin().hit {
                notify(.skipped(index))
                return hit.value
            }
            notify(.runs(index, reason.description))
        }
        let value = make(index, in: folder, values)
        let end = unsafe value.withUnsafeBytes { unsafe work.finish(value: nodes[index].memoizes ? $0 : nil) }
        switch end {
        case .recorded: notify(.isDone(index))
        case .notRecorded(let reason): notify(.isNotRecorded(index, reason ?? "the store cannot be written"))
        }
        return nodes[index].memoizes ? value : nil
    }

    /// The body: writes the outputs, in pieces, and returns the value.
    private func make(_ index: Int, in folder: String, _ values: [Int: [UInt8]]) -> [UInt8] {
        let node = nodes[index]
        var hasher = Hasher128()
        hasher.combine("node \(index)")
        hasher.combine(Self.digest(Self.read("\(folder)/c\(index)") ?? []))
        for name in inputs(index) { hasher.combine(Self.digest(Self.read("\(folder)/\(name)") ?? [0, 0])) }
        for dependency in node.dependencies { hasher.combine(Self.digest(values[dependency] ?? [])) }
        if node.hasPattern {
            for number in 0..<3 { hasher.combine(Self.digest(Self.read("\(folder)/p/\(number).in") ?? [0, 0])) }
        }
        let seed = hasher.finalize().low
        for (number, name) in outputs(index).enumerated() {
            var random = SeededGenerator(seed: seed &+ UInt64(number))
            let file = open("\(folder)/\(name)", O_WRONLY | O_CREAT | O_TRUNC, 0o666)
            for _ in 0..<3 {
                let bytes = (0..<node.size / 3 + 1).map { _ in UInt8.random(in: .min ... .max, using: &random) }
                _ = unsafe Glibc.write(file, bytes, bytes.count)
            }
            close(file)
        }
        if node.hasDepfile {
            // As a compiler does, it names only what is there.
            let names = inputs(index).filter { Self.read("\(folder)/\($0)") != nil }
            Self.write("o\(index)_0: \\\n " + names.joined(separator: " \\\n ") + "\n", to: "\(folder)/o\(index).d")
        }
        if !node.memoizes { return [] }
        var random = SeededGenerator(seed: seed)
        return (0..<node.size).map { _ in UInt8.random(in: 0...15, using: &random) }
    }

    // MARK: Files

    static func digest(_ bytes: [UInt8]) -> Digest { unsafe bytes.withUnsafeBytes { unsafe Hasher128.hash($0) } }

    /// The bytes of a file; nil if it is not there.
    public static func read(_ path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = [], buffer = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            let count = unsafe Glibc.read(file, &buffer, buffer.count)
            if count <= 0 { return bytes }
            bytes += buffer[..<count]
        }
    }

    /// Replaces the contents of a file.
    public static func write(_ bytes: [UInt8], to path: String) {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
        precondition(file >= 0, "cannot write \(path)")
        _ = unsafe Glibc.write(file, bytes, bytes.count)
        close(file)
    }

    /// Replaces the contents of a file.
    public static func write(_ text: String, to path: String) { write(Array(text.utf8), to: path) }
}
