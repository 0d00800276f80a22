import CLua

/// Encoded Lua values on their way between states: a reference to what C reads.
///
/// - Concurrency: immutable once made; any number of states may decode it at once.
@safe
struct Parcel: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because it is written only by the initialiser and by `letGo`, before it is shared; C counts the
    // references in it atomically.

    /// One block of memory for all that is not in the parcel's own blocks.
    final class Storage: ManagedBuffer<Contents, Never> {
        deinit {
            unsafe withUnsafeMutablePointerToHeader { unsafe clua_parcel_release(&$0.pointee.parcel) }
        }
    }

    @safe
    struct Contents {
        var parcel: clua_parcel
    }

    private let buffer: ManagedBuffer<Contents, Never>

    /// Takes over what `parcel` owns.
    init(_ parcel: clua_parcel) { buffer = Storage.create(minimumCapacity: 0) { _ in unsafe Contents(parcel: parcel) } }

    /// Takes over a reference to what a parcel is.
    init(taking reference: Unmanaged<Storage>) { buffer = unsafe reference.takeRetainedValue() }

    /// A reference to what it is.
    consuming func takeReference() -> Unmanaged<Storage> {
        // Safety: `create` makes one of its own class.
        unsafe .passRetained(unsafeDowncast(buffer, to: Storage.self))
    }

    /// No values at all.
    static let empty = unsafe Parcel(clua_parcel())

    /// Whether it refers to the object that holds it, which must be alive when the parcel is decoded.
    var refersToOwner: Bool { unsafe pointer.pointee.is_disowned }

    /// Whether it is a plain value, or a function that can come to nothing but plain values.
    var isFlat: Bool { unsafe pointer.pointee.is_flat }

    /// Does not keep `owner`, which is about to hold the parcel, alive: they would keep each other. Before anybody else has the parcel.
    func letGo(of owner: AnyObject) {
        guard hasReferences else { return }
        unsafe buffer.withUnsafeMutablePointerToHeader {
            unsafe clua_parcel_disown(&$0.pointee.parcel, Unmanaged.passUnretained(owner).toOpaque())
        }
    }

    /// Whether it owns nothing but code.
    var isLight: Bool { unsafe !pointer.pointee.has_block && clua_parcel_string_count(pointer) == 0 && !hasReferences }

    /// Whether it refers to objects of the host.
    var hasReferences: Bool { unsafe clua_parcel_reference_count(pointer) > 0 }

    /// Whether it keeps operations alive.
    var keepsOperations: Bool {
        for index in 0..<(unsafe clua_parcel_reference_count(pointer)) {
            let reference = unsafe clua_parcel_reference(pointer, index).pointee
            if unsafe reference.kind == ObjectKind.operation.rawValue && !reference.is_unowned { return true }
        }
        return false
    }

    /// What C reads; valid as long as the parcel is.
    var pointer: UnsafePointer<clua_parcel> {
        // Safety: the header stays where it is, and is the parcel.
        unsafe buffer.withUnsafeMutablePointerToHeader { unsafe UnsafeRawPointer($0).assumingMemoryBound(to: clua_parcel.self) }
    }
}
