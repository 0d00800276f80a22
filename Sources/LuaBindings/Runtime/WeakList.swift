import OpEngine
import OpPlatform

/// Weak references to objects. When the list has doubled, it drops the references to objects that are gone.
final class WeakList: Sendable {
    typealias Object = AnyObject & Sendable

    private struct Entry {
        weak var object: (any Object)?
    }

    private struct Entries {
        var all: [Entry] = []
        /// The count of `all` at which it drops references.
        var limit = 64
    }

    private let entries = Guarded(Entries())

    func add(_ object: any Object) {
        // Released outside of the lock: this may be the last reference to an object, which then releases objects of the host.
        let found = entries.withLock { entries -> [any Object] in
            var found: [any Object] = []
            if entries.all.count >= entries.limit {
                found = entries.all.compactMap(\.object)
                entries.all = found.map { Entry(object: $0) }
                entries.limit = 2 * entries.all.count + 64
            }
            entries.all.append(Entry(object: object))
            return found
        }
        withExtendedLifetime(found) {}
    }

    /// The objects that exist.
    var all: [any Object] { entries.withLock { $0.all.compactMap(\.object) } }
}

/// An object that operations wait for, and that holds values of scripts.
protocol WaitedObject: AnyObject, Sendable {
    /// A text that says why the operation waits for the object, as in `to receive from channel 'lines'`; nil if it does not.
    func purposeOfWait(of operation: Operation) -> String?
    /// Ends all waits and drops the values, because the runtime closes.
    func abandon()
}
