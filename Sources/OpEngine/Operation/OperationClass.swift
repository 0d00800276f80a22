import CPlatform
import Synchronization

/// What a class that is derived from `Operation` has overridden.
///
/// Most subclasses override `main`, and leave it to `Operation` how they start and end and when they are ready. A worker runs these as
/// quickly as blocks, since nobody else can end them and there are no getters to ask.
///
/// Swift does not say what a class overrides. But each class has a table of its methods, which begins as that of its superclass does; where
/// the two have the same entry, the method is the same. The entries that matter are found by comparing the tables of classes of our own, which
/// override just these methods. Where the tables look different, every class counts as one that overrides everything.
@safe enum OperationClass {
    /// Whether nothing is overridden that decides how an operation starts and ends, when it is ready, and how it is queued.
    @inline(__always)
    static func isPlain(_ operation: Operation) -> Bool {
        let type = address(of: operation)
        return type == lastPlain.load(ordering: .relaxed)
            || type != lastOther.load(ordering: .relaxed) && overridden(by: type).isEmpty
    }

    /// Whether its priority or quality of service is what a getter of its own says.
    @inline(__always)
    static func hasOwnSettings(_ operation: Operation) -> Bool {
        let type = address(of: operation)
        return type != lastWithoutSettings.load(ordering: .relaxed) && overridden(by: type).contains(.settings)
    }

    @inline(__always)
    private static func address(of operation: Operation) -> UInt {
        UInt(bitPattern: unsafe unsafeBitCast(type(of: operation), to: UnsafeRawPointer.self))
    }

    // Mostly one class comes many times.
    private static let lastPlain = Atomic<UInt>(0)
    private static let lastOther = Atomic<UInt>(0)
    private static let lastWithoutSettings = Atomic<UInt>(0)

    private struct Members: OptionSet {
        let rawValue: UInt8
        /// Starting, ending, readiness.
        static let lifecycle = Members(rawValue: 1)
        /// Priority and quality of service.
        static let settings = Members(rawValue: 2)
    }

    @inline(never)
    private static func overridden(by type: UInt) -> Members {
        // Safety: the table of a subclass begins as that of its superclass does.
        let base = unsafe words(of: Operation.self)
        let own = unsafe UnsafePointer<UInt>(bitPattern: type).unsafelyUnwrapped
        func differs(_ entries: [Int]) -> Bool { entries.isEmpty || entries.contains { unsafe own[$0] != base[$0] } }
        var overridden: Members = []
        if differs(lifecycleEntries) { overridden.insert(.lifecycle) }
        if differs(settingsEntries) { overridden.insert(.settings) }
        if overridden.isEmpty { lastPlain.store(type, ordering: .relaxed) } else { lastOther.store(type, ordering: .relaxed) }
        if !overridden.contains(.settings) { lastWithoutSettings.store(type, ordering: .relaxed) }
        return overridden
    }

    private static let lifecycleEntries = entries(of: OwnLifecycle.self)
    private static let settingsEntries = entries(of: OwnSettings.self)

    private static func words(of type: Operation.Type) -> UnsafePointer<UInt> {
        unsafe unsafeBitCast(type, to: UnsafePointer<UInt>.self)
    }

    /// Where the entries are of what a class overrides, in words from its beginning.
    private static func entries(of overriding: Operation.Type) -> [Int] {
        #if _runtime(_ObjC)
            // What describes a class is longer there.
            return []
        #else
            let (base, overriding, other) = unsafe (words(of: Operation.self), words(of: overriding), words(of: NotOverriding.self))
            // Safety: so many words are there; all three classes begin alike, and have no fewer.
            return (firstEntry..<wordCount).filter { index in unsafe overriding[index] != base[index] && other[index] == base[index] }
        #endif
    }

    /// Behind what describes a class: its kind, superclass, sizes, name and how its properties are destroyed.
    private static let firstEntry = 7

    /// From the beginning of `Operation`, which is where references to it point to, to its end.
    private static let wordCount: Int = {
        // Safety: the sizes of a class are in its description: of all, and of what lies in front of the beginning.
        let description = unsafe UnsafeRawPointer(words(of: Operation.self))
        let size = unsafe description.load(fromByteOffset: 32, as: UInt32.self)
        let before = unsafe description.load(fromByteOffset: 36, as: UInt32.self)
        return (Int(size) - Int(before)) / MemoryLayout<UInt>.size
    }()

    // Safety: `@unchecked Sendable`, here and below, because nothing is added to the superclass.
    private final class NotOverriding: Operation, @unchecked Sendable {}

    // Safety: as above.
    private final class OwnLifecycle: Operation, @unchecked Sendable {
        override func start() {}
        override var isReady: Bool { true }
        override var isExecuting: Bool { true }
        override var isFinished: Bool { true }
        override func willFinish() { cplatform_relax() }
        override func didFinish() { cplatform_relax() }
    }

    // Safety: as above.
    private final class OwnSettings: Operation, @unchecked Sendable {
        override var queuePriority: QueuePriority {
            get { .normal }
            set {}
        }
        override var qualityOfService: QualityOfService {
            get { .default }
            set {}
        }
    }
}
