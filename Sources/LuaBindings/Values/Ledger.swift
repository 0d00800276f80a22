import CLua
import Synchronization

/// The kinds of memory that the host keeps for scripts, outside of their states.
enum Kept: CaseIterable {
    /// Encoded values: fields of operations, functions with arguments and captures, results, raised values, what waits in channels.
    case value
    /// The code of functions in such values.
    case code
    case frozen
    case operation, field, name, keys, needs, condition, conditionFunction, dependency, step, queue, scriptClass
    case channel, message, timer, observation, notice, failure
    /// A program, or a request of HTTP.
    case program

    /// The bytes that one of a kind takes besides its contents, as measured. C counts those of the first three.
    var bytes: Int {
        switch self {
        case .value, .code, .frozen: 0
        case .operation: 240
        case .field: 128
        case .name: 64
        case .keys, .needs: 128
        case .condition: 48
        case .conditionFunction: 128
        case .dependency: 80
        case .step: 512
        case .queue: 800
        case .scriptClass: 256
        case .channel: 512
        case .message: 64
        case .timer: 640
        case .observation: 1536
        case .notice: 704
        case .failure: 384
        case .program: 2048
        }
    }
}

/// The memory that the host keeps for the scripts of one runtime, and its limit: `Runtime.Limits.memory`. All kept bytes are counted here.
///
/// Code that a script calls asks for room before (`LuaState.makeRoom`), or encodes a value, which asks afterwards. So only calls at the same time can
/// together exceed the limit, and each by what it keeps.
// Safety: `@unchecked Sendable` because the counter in C is atomic.
@safe
final class Ledger: @unchecked Sendable {
    let limit: Int
    let pointer: OpaquePointer

    init(limit: Int) {
        self.limit = limit
        guard let pointer = unsafe clua_ledger_new(max(0, limit)) else { fatalError("out of memory") }
        unsafe self.pointer = pointer
    }

    deinit { unsafe clua_ledger_release(pointer) }

    /// The bytes that are kept now.
    var bytes: Int { unsafe clua_ledger_bytes(pointer) }

    func hasRoom(for kind: Kept, _ bytes: Int) -> Bool { self.bytes + kind.bytes + bytes <= limit }

    func add(_ kind: Kept, _ bytes: Int = 0) { unsafe clua_ledger_add(pointer, kind.bytes + bytes) }
    func subtract(_ kind: Kept, _ bytes: Int = 0) { unsafe clua_ledger_subtract(pointer, kind.bytes + bytes) }

    /// - Throws: an error that names the limit if more is kept.
    func check() throws(Failure) { if bytes > limit { throw Failure(message: refusal) } }

    var refusal: String { "the runtime's scripts keep more than \(limit) bytes (limits.memory)" }
}

/// The part of a ledger that one kept thing owns, until this object is released.
final class Charge: Sendable {
    private let ledger: Ledger
    private let kind: Kept
    /// Besides those of `kind`.
    private let bytes: Atomic<Int>

    init(_ kind: Kept, _ bytes: Int, in ledger: Ledger) {
        self.ledger = ledger
        self.kind = kind
        self.bytes = Atomic(bytes)
        ledger.add(kind, bytes)
    }

    deinit { ledger.subtract(kind, bytes.load(ordering: .relaxed)) }

    var count: Int { bytes.load(ordering: .relaxed) }

    /// Replaces the bytes besides those of the kind.
    func change(to bytes: Int) {
        let before = self.bytes.exchange(bytes, ordering: .relaxed)
        if bytes > before {
            unsafe clua_ledger_add(ledger.pointer, bytes - before)
        } else {
            unsafe clua_ledger_subtract(ledger.pointer, before - bytes)
        }
    }
}

extension Ledger? {
    /// Counts a kept thing; nil without a ledger.
    func charge(_ kind: Kept, _ bytes: Int = 0) -> Charge? { map { Charge(kind, bytes, in: $0) } }
}
