import CLua

/// Encoded Lua values on their way between states.
///
/// - Concurrency: immutable once made; any number of states may decode it at once.
// Safety: it is written only by the initialiser and by `letGo`, before it is shared; C counts the references in it atomically.
@safe
final class Parcel: @unchecked Sendable {
    private let contents: UnsafeMutablePointer<clua_parcel>

    /// Whether it refers to the object that holds it, which must be alive when the parcel is decoded.
    private(set) var refersToOwner = false

    /// Takes over what `contents` owns.
    init(_ contents: clua_parcel) {
        unsafe self.contents = .allocate(capacity: 1)
        unsafe self.contents.initialize(to: contents)
    }

    /// No values at all.
    static let empty = unsafe Parcel(clua_parcel())

    /// Does not keep `owner`, which is about to hold the parcel, alive: they would keep each other. Before anybody else has the parcel.
    func letGo(of owner: AnyObject) {
        if unsafe clua_parcel_disown(contents, Unmanaged.passUnretained(owner).toOpaque()) { refersToOwner = true }
    }

    /// Whether it keeps operations alive.
    var keepsOperations: Bool {
        for index in 0..<(unsafe contents.pointee.reference_count) {
            let reference = unsafe contents.pointee.references[index]
            if unsafe reference.kind == ObjectKind.operation.rawValue && !reference.is_unowned { return true }
        }
        return false
    }

    deinit {
        unsafe clua_parcel_release(contents)
        unsafe contents.deallocate()
    }

    /// What C reads; valid as long as the parcel is.
    var pointer: UnsafePointer<clua_parcel> { unsafe UnsafePointer(contents) }
}
