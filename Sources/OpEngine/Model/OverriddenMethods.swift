import CPlatform
import Synchronization

/// Detects which methods a subclass of `Operation` overrides.
///
/// Most subclasses override only `main`, and leave starting, finishing and readiness to `Operation`. A worker runs such operations as fast
/// as blocks, because only the worker can finish them, and they have no getters to evaluate.
///
/// Swift has no API for this. But every class has a method table that begins like its superclass's table, and equal entries mean the same
/// method. The entries that matter are found by comparing the tables of private classes that override exactly these methods. If the tables
/// look unfamiliar, every class counts as overriding everything.
@safe enum OverriddenMethods {
    /// Whether the class overrides nothing that decides how an operation starts, finishes, becomes ready, or is queued.
    @inline(__always)
    static func isPlain(_ operation: Operation) -> Bool {
        if type(of: operation) == BlockOperation.self { return true }
        let type = address(of: operation)
        return type == lastPlain.load(ordering: .relaxed)
            || type != lastOther.load(ordering: .relaxed) && overridden(by: type).isEmpty
    }

    /// Whether the class has its own getters for the priority or the quality of service.
    @inline(__always)
    static func hasOwnSettings(_ operation: Operation) -> Bool {
        let type = address(of: operation)
        return type != lastWithoutSettings.load(ordering: .relaxed) && overridden(by: type).contains(.settings)
    }

    /// Whether a subclass of `GroupOperation` overrides `cancel`.
    static func hasOwnCancel(_ group: GroupOperation) -> Bool {
        differs(address(of: group), from: GroupOperation.self, in: cancelEntries)
    }

    /// The flags for which the class has its own getters.
    static func flags(of operation: Operation) -> Set<ObservedKey> {
        Set(getterEntries.filter { differs(address(of: operation), in: $0.entries) }.map(\.flag))
    }

    /// Whether the class declares which keys depend on others.
    static func declaresDependentKeys(_ operation: Operation) -> Bool { differs(address(of: operation), in: declarationEntries) }

    @inline(__always)
    private static func address(of operation: Operation) -> UInt {
        UInt(bitPattern: unsafe unsafeBitCast(type(of: operation), to: UnsafeRawPointer.self))
    }

    // Caches of the class seen last, because operations of one class tend to come in series.
    private static let lastPlain = Atomic<UInt>(0)
    private static let lastOther = Atomic<UInt>(0)
    private static let lastWithoutSettings = Atomic<UInt>(0)

    private struct Members: OptionSet {
        let rawValue: UInt8
        /// Starting, finishing and readiness.
        static let lifecycle = Members(rawValue: 1)
        /// Priority and quality of service.
        static let settings = Members(rawValue: 2)
    }

    @inline(never)
    private static func overridden(by type: UInt) -> Members {
        var overridden: Members = []
        if differs(type, in: lifecycleEntries) { overridden.insert(.lifecycle) }
        if differs(type, in: settingsEntries) { overridden.insert(.settings) }
        if overridden.isEmpty { lastPlain.store(type, ordering: .relaxed) } else { lastOther.store(type, ordering: .relaxed) }
        if !overridden.contains(.settings) { lastWithoutSettings.store(type, ordering: .relaxed) }
        return overridden
    }

    /// Whether the class overrides the methods of some entries of `base`.
    private static func differs(_ type: UInt, from base: Operation.Type = Operation.self, in entries: [Int]) -> Bool {
        // Safety: the table of a subclass begins like the table of its superclass.
        let (base, own) = unsafe (words(of: base), UnsafePointer<UInt>(bitPattern: type).unsafelyUnwrapped)
        return entries.isEmpty || entries.contains { unsafe own[$0] != base[$0] }
    }

    private static let getterEntries: [(flag: ObservedKey, entries: [Int])] = [
        (.isReady, entries(of: OwnReady.self)), (.isExecuting, entries(of: OwnExecuting.self)),
        (.isFinished, entries(of: OwnFinished.self)), (.isCancelled, entries(of: OwnCancelled.self)),
    ]
    private static let declarationEntries = entries(of: OwnDeclaration.self)
    private static let lifecycleEntries = entries(of: OwnLifecycle.self)
    private static let settingsEntries = entries(of: OwnSettings.self)
    private static let cancelEntries = entries(of: OwnCancel.self)

    private static func words(of type: Operation.Type) -> UnsafePointer<UInt> {
        unsafe unsafeBitCast(type, to: UnsafePointer<UInt>.self)
    }

    /// The indices of the table entries that `overriding` overrides, in words from the start of the class.
    private static func entries(of overriding: Operation.Type) -> [Int] {
        #if _runtime(_ObjC)
            // The class header is longer with Objective-C interoperability.
            return []
        #else
            let (base, overriding, other) = unsafe (words(of: Operation.self), words(of: overriding), words(of: NotOverriding.self))
            // Safety: all three classes begin alike and have at least `wordCount` words.
            return (firstEntry..<wordCount).filter { index in unsafe overriding[index] != base[index] && other[index] == base[index] }
        #endif
    }

    /// The index of the first word after the header: kind, superclass, sizes, descriptor, and the destructor of the properties.
    private static let firstEntry = 7

    /// The number of words from the address point of `Operation`, which references to the class point to, to its end.
    private static let wordCount: Int = {
        // Safety: the class header contains the total size and the size of the part before the address point.
        let description = unsafe UnsafeRawPointer(words(of: Operation.self))
        let size = unsafe description.load(fromByteOffset: 32, as: UInt32.self)
        let before = unsafe description.load(fromByteOffset: 36, as: UInt32.self)
        return (Int(size) - Int(before)) / MemoryLayout<UInt>.size
    }()

    // Safety: `@unchecked Sendable`, here and below, because the classes add no stored properties.
    private final class NotOverriding: Operation, @unchecked Sendable {}

    // Safety: `@unchecked Sendable` because the class adds no stored properties.
    private final class OwnLifecycle: Operation, @unchecked Sendable {
        override func start() {}
        override var isReady: Bool { true }
        override var isExecuting: Bool { true }
        override var isFinished: Bool { true }
        override func willFinish() { cplatform_relax() }
        override func didFinish() { cplatform_relax() }
    }

    // Safety: as above.
    private final class OwnReady: Operation, @unchecked Sendable { override var isReady: Bool { true } }
    // Safety: as above.
    private final class OwnExecuting: Operation, @unchecked Sendable { override var isExecuting: Bool { true } }
    // Safety: as above.
    private final class OwnFinished: Operation, @unchecked Sendable { override var isFinished: Bool { true } }
    // Safety: as above.
    private final class OwnCancelled: Operation, @unchecked Sendable { override var isCancelled: Bool { true } }

    // Safety: as above.
    private final class OwnDeclaration: Operation, @unchecked Sendable {
        override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> { [key] }
    }

    // Safety: `@unchecked Sendable` because the class adds no stored properties.
    private final class OwnCancel: Operation, @unchecked Sendable {
        override func cancel() { cplatform_relax() }
    }

    // Safety: `@unchecked Sendable` because the class adds no stored properties.
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
