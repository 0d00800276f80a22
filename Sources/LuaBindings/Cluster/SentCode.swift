import CLua
import OpCluster
import OpPlatform

/// The code of the functions that this process has sent to workers. A function that a worker sends must have code from here, so workers cannot make
/// this process run theirs.
enum SentCode {
    /// The digests of all functions that were sent, also of those that are nested in others. A digest stays, since a function may return late.
    private static let digests = Guarded<Set<SecureDigest>>([])

    /// Adds the function of a code, and those nested in it.
    static func add(_ code: OpaquePointer) {
        if unsafe clua_wire_was_sent(code) { return }
        let functions = unsafe functions(of: code)
        digests.withLock { $0.formUnion(functions) }
        unsafe clua_wire_mark_sent(code)
    }

    /// Adds the functions in the text of a module. Ignores a text with an error: it has no functions.
    static func add(text: UnsafeRawBufferPointer, chunkName: String) {
        let bytes = unsafe text.baseAddress?.assumingMemoryBound(to: CChar.self)
        guard let code = unsafe clua_wire_compile(bytes, text.count, chunkName) else { return }
        unsafe add(code)
        unsafe clua_wire_release_code(code)
    }

    /// Whether the function of a code was sent, alone or in another one.
    static func contains(_ code: OpaquePointer) -> Bool {
        guard let function = unsafe functions(of: code).last else { return false }
        return digests.withLock { $0.contains(function) }
    }

    /// The digests of the functions in a code. The outermost one is the last. Empty if memory has run out.
    private static func functions(of code: OpaquePointer) -> [SecureDigest] {
        var functions: [SecureDigest] = []
        let isComplete = unsafe withUnsafeMutablePointer(to: &functions) { list in
            unsafe clua_wire_functions(code, list) { list, first, firstCount, second, secondCount in
                let bytes =
                    unsafe Array(UnsafeBufferPointer(start: first, count: firstCount))
                    + Array(UnsafeBufferPointer(start: second, count: secondCount))
                unsafe list?.assumingMemoryBound(to: [SecureDigest].self).pointee.append(SecureDigest(of: bytes))
            }
        }
        return isComplete ? functions : []
    }

    // MARK: visitors

    /// Calls `write` with a visitor that adds the code that is written.
    static func adding(_ write: (UnsafePointer<clua_code_visitor>) -> Bool) -> Bool {
        var visitor = unsafe clua_code_visitor(context: nil) { _, code in
            if let code = unsafe code { unsafe SentCode.add(code) }
            return true
        }
        return unsafe withUnsafePointer(to: &visitor) { unsafe write($0) }
    }

    /// Calls `read` with a visitor that refuses code that was not sent.
    ///
    /// - Throws: an error that names the refused function.
    static func admitting<Value>(_ read: (UnsafePointer<clua_code_visitor>) -> Value) throws(Failure) -> Value {
        var refused: String?
        let value = unsafe withUnsafeMutablePointer(to: &refused) { refused in
            var visitor = unsafe clua_code_visitor(context: refused) { refused, code in
                guard let code = unsafe code else { return false }
                if unsafe SentCode.contains(code) { return true }
                unsafe refused?.assumingMemoryBound(to: String?.self).pointee = unsafe String(cString: clua_wire_place_of_code(code))
                return false
            }
            return unsafe withUnsafePointer(to: &visitor) { unsafe read($0) }
        }
        guard let refused else { return value }
        throw Failure(
            message: "the worker has sent a function \(refused) that is neither of this script nor of a module that the script has sent: "
                + "return values, or define the function in the script or in one of its modules")
    }
}
