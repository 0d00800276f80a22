/// The keys of an operation. Most operations have one, which is stored without memory of its own and without a hash.
struct ExclusiveKeys {
    private var first: String?
    private var others: Set<String> = []

    init() {}

    init(_ key: String) { first = key }

    init(_ keys: Set<String>) {
        first = keys.first
        if keys.count > 1 { others = keys.subtracting(keys.prefix(1)) }
    }

    var all: Set<String> { first.map { others.union(CollectionOfOne($0)) } ?? [] }

    @inline(__always)
    func forEach(_ body: (String) -> Void) {
        if let first { body(first) }
        if !others.isEmpty { others.forEach(body) }
    }
}
