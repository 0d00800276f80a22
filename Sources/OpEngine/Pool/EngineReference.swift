import CPlatform
import OpPlatform
import Synchronization

/// The part of an engine that its inboxes share, and that outlives the engine.
final class EngineReference: Sendable {
    let engine = BackReference<Engine>()
    /// The number of unfinished jobs in all inboxes of the engine.
    let pendingJobs = Atomic<Int>(0)
}

/// Refers to an object until it is deallocated, without keeping it alive.
///
/// Not `weak`: a weak reference would make every retain and release of the object take about four times the instructions.
@safe struct BackReference<Object: AnyObject>: ~Copyable, Sendable {
    private let lock = Lock()
    /// The object's address; 0 for none. Guarded by `lock`.
    private let address = Atomic<UInt>(0)

    /// The object. Nil once it is being deallocated.
    var object: Object? {
        lock.withLock {
            // Safety: the object ends the reference before its memory is freed.
            guard let pointer = unsafe UnsafeMutableRawPointer(bitPattern: address.load(ordering: .relaxed)),
                unsafe cplatform_try_retain(pointer)
            else { return nil }
            return unsafe Unmanaged<Object>.fromOpaque(pointer).takeRetainedValue()
        }
    }

    func refer(to object: Object?) {
        lock.withLock { address.store(object.map { Self.address(of: $0) } ?? 0, ordering: .relaxed) }
    }

    /// The object calls this method, or `refer`, while it is being deallocated. No effect if another object has replaced it.
    func forget(_ object: Object) {
        lock.withLock { _ = address.compareExchange(expected: Self.address(of: object), desired: 0, ordering: .relaxed) }
    }

    private static func address(of object: Object) -> UInt { unsafe UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque()) }
}
