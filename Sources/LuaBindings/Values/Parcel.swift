import CLua

/// Encoded Lua values on their way between states.
///
/// - Concurrency: immutable once made; any number of states may decode it at once.
// Safety: `contents` is written only before the initialiser returns, and C counts the references in it atomically.
@safe
final class Parcel: @unchecked Sendable {
    private let contents: UnsafeMutablePointer<clua_parcel>

    /// Takes over what `contents` owns.
    init(_ contents: clua_parcel) {
        unsafe self.contents = .allocate(capacity: 1)
        unsafe self.contents.initialize(to: contents)
    }

    /// No values at all.
    static let empty = unsafe Parcel(clua_parcel())

    deinit {
        unsafe clua_parcel_release(contents)
        unsafe contents.deallocate()
    }

    /// What C reads; valid as long as the parcel is.
    var pointer: UnsafePointer<clua_parcel> { unsafe UnsafePointer(contents) }
}
