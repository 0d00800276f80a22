import CPlatform
import OpPlatform

/// Refers to an engine until it is deallocated, without keeping it alive.
///
/// Not `weak`: a weak reference would make every retain and release of the engine take about four times the instructions.
@safe final class EngineReference: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `lock` guards `unretained`.
    private let lock = Lock()
    // Safety: the engine clears the reference before its memory is freed.
    @exclusivity(unchecked) private var unretained: Unmanaged<Engine>?

    /// The engine. Nil once it is being deallocated.
    var engine: Engine? {
        lock.withLock {
            guard let engine = unsafe unretained, unsafe cplatform_try_retain(engine.toOpaque()) else { return nil }
            return unsafe engine.takeRetainedValue()
        }
    }

    func refer(to engine: Engine) { lock.withLock { unsafe unretained = .passUnretained(engine) } }

    /// Must be called when the engine is being deallocated.
    func clear() { lock.withLock { unsafe unretained = nil } }
}
