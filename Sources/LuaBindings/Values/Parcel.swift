import CLua

/// Encoded Lua values on their way between states, as a reference-counted wrapper around C's parcel.
///
/// - Concurrency: immutable once made; any number of states may decode it at once.
@safe
struct Parcel: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the initializer and `makeUnowned` write to the parcel, before it is shared. C counts the
    // references in it atomically.

    /// The allocation that holds C's parcel. The parcel may own further blocks.
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

    /// Takes over the memory and the references that `parcel` owns.
    init(_ parcel: clua_parcel) { buffer = Storage.create(minimumCapacity: 0) { _ in unsafe Contents(parcel: parcel) } }

    /// Takes over a reference to a parcel's storage.
    init(taking reference: Unmanaged<Storage>) { buffer = unsafe reference.takeRetainedValue() }

    /// Gives up this parcel's reference to its storage and returns it.
    consuming func takeReference() -> Unmanaged<Storage> {
        // Safety: `Storage.create` makes instances of `Storage`.
        unsafe .passRetained(unsafeDowncast(buffer, to: Storage.self))
    }

    /// A parcel without values.
    static let empty = unsafe Parcel(clua_parcel())

    /// Whether the parcel has unowned references to the object that holds it. That object must be alive when the parcel is decoded.
    var refersToOwner: Bool { unsafe pointer.pointee.is_disowned }

    /// Whether the parcel is a plain value, a table of plain values, or a function from which only plain values can be reached.
    var isFlat: Bool { unsafe pointer.pointee.is_flat }

    /// Makes the parcel's references to `owner` unowned: `owner` is about to hold the parcel, and the two would keep each other alive. Call
    /// this before the parcel is shared.
    func makeUnowned(referencesTo owner: AnyObject) {
        guard hasReferences else { return }
        unsafe buffer.withUnsafeMutablePointerToHeader {
            unsafe clua_parcel_disown(&$0.pointee.parcel, Unmanaged.passUnretained(owner).toOpaque())
        }
    }

    /// Counts a parcel that no state has encoded. Call this before the parcel is shared.
    func count(in ledger: Ledger?) {
        guard let ledger else { return }
        // Without memory for that, the parcel is the least concern.
        unsafe buffer.withUnsafeMutablePointerToHeader { _ = unsafe clua_parcel_charge(&$0.pointee.parcel, ledger.pointer) }
    }

    /// Whether the parcel owns nothing but code.
    var isLight: Bool {
        unsafe !pointer.pointee.has_block && clua_parcel_string_count(pointer) == 0 && clua_parcel_frozen_count(pointer) == 0
            && !hasReferences
    }

    /// Whether the parcel refers to host objects, also through frozen values.
    var hasReferences: Bool { unsafe pointer.pointee.has_more && clua_parcel_has_objects(pointer) }

    /// Whether the parcel keeps operations alive.
    var keepsOperations: Bool {
        for index in 0..<(unsafe clua_parcel_reference_count(pointer)) {
            let reference = unsafe clua_parcel_reference(pointer, index).pointee
            if unsafe reference.kind == ObjectKind.operation.rawValue && !reference.is_unowned { return true }
        }
        return unsafe clua_parcel_frozen_count(pointer) > 0 && clua_parcel_has_objects(pointer)
    }

    /// The parcel that C reads. Valid as long as this parcel is.
    var pointer: UnsafePointer<clua_parcel> {
        // Safety: the header does not move, and it consists of the parcel.
        unsafe buffer.withUnsafeMutablePointerToHeader { unsafe UnsafeRawPointer($0).assumingMemoryBound(to: clua_parcel.self) }
    }
}
