import Synchronization

/// A failure that is reported at the end unless code reads it.
protocol UnreadItem: AnyObject, Sendable {
    var isRead: Bool { get }
}

/// Failures that may still be unread, in the order in which they arrived.
struct UnreadList<Item: UnreadItem> {
    private var all: [Item] = []
    /// When `all` reaches this count, the failures that were read are removed.
    private var limit = 64
    /// Of more unread failures, the oldest are dropped.
    let most: Int

    init(most: Int = .max) { self.most = most }

    mutating func append(_ item: Item) {
        if all.count >= limit {
            all.removeAll(where: \.isRead)
            all.removeFirst(max(0, all.count - most))
            limit = 2 * all.count + 64
        }
        all.append(item)
    }

    /// Removes all, and returns those that are unread.
    mutating func take() -> [Item] {
        defer { self = UnreadList(most: most) }
        return all.filter { !$0.isRead }
    }
}

extension OperationFailure: UnreadItem {}

/// The end of a program that failed.
final class FailedProgram: UnreadItem {
    /// For people, with the last line that it has written to stderr.
    let sentence: String
    private let read = Atomic<Bool>(false)

    init(_ sentence: String) { self.sentence = sentence }

    /// Whether code has waited for the program.
    var isRead: Bool { read.load(ordering: .relaxed) }

    func markRead() { read.store(true, ordering: .relaxed) }
}
