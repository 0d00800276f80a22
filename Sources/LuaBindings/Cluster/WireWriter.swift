import CLua
import Glibc
import OpCluster
import OpEngine

/// Writes Lua values for another machine: those that a body runs with, and those that it leaves.
///
/// wire := list-of-objects description-of-owner contents-of-objects values. The objects are those that values refer to, each once. The
/// operations among them have finished, and the contents are their outcomes.
struct WireWriter {
    /// The form of an object on the wire.
    enum ObjectForm: UInt8 {
        case operation = 1, scriptClass, failure
    }

    /// Strings and encoded values of at least this many bytes are blobs, which a worker receives once.
    static let fewestBlobBytes = 64 << 10
    /// If all parts together have more bytes than this, they are a blob, because they would not fit a message.
    private static let mostInlineBytes = 512 << 10
    /// The most objects that one message has. Results may refer to operations, whose results refer to others, and so on.
    private static let mostObjects = 10_000

    private var values = ByteWriter()
    private var objects: [AnyObject] = []
    private var numbers: [ObjectIdentifier: Int] = [:]
    private var blobs: [Blob] = []
    /// The errors of the operations, in the order in which they were written.
    private(set) var failures: [OperationFailure] = []
    private var blobNumbers: [BlobName: Int] = [:]
    /// The operation that the values belong to, and may refer to.
    private let owner: LuaOperation?
    /// The name of the values in error messages.
    private let purpose: String
    private let describesOwner: Bool
    private let fewestBlobBytes: Int
    private let remembersCode: Bool
    private let frozenValues: FrozenValues?

    /// - Parameters:
    ///   - describesOwner: whether the receiver makes an operation like the owner.
    ///   - usesBlobs: whether large parts are sent as blobs.
    ///   - remembersCode: whether the code of functions becomes `SentCode`, so that they may return.
    ///   - frozenValues: the values that were sent or received before.
    init(
        for owner: LuaOperation?, _ purpose: String, describesOwner: Bool = false, usesBlobs: Bool = true, remembersCode: Bool = false,
        frozenValues: FrozenValues? = nil
    ) throws(Failure) {
        self.remembersCode = remembersCode
        (self.owner, self.purpose, self.describesOwner, self.frozenValues) = (owner, purpose, describesOwner, frozenValues)
        fewestBlobBytes = usesBlobs ? Self.fewestBlobBytes : .max
        guard describesOwner, let scriptClass = owner?.scriptClass else { return }
        if let refusal = refusal(of: scriptClass) { throw Failure(message: "\(purpose) \(refusal)") }
        _ = numberOf(scriptClass)
    }

    mutating func number(_ value: Int) { values.number(value) }
    mutating func text(_ value: String) { values.text(value) }
    mutating func flag(_ value: Bool) { values.byte(value ? 1 : 0) }

    mutating func optional<Value>(_ value: Value?, _ write: (inout WireWriter, Value) throws(Failure) -> Void) throws(Failure) {
        flag(value != nil)
        if let value { try write(&self, value) }
    }

    mutating func seconds(_ value: Double) { values.seconds(value) }

    /// Writes the number of a blob, which is sent with the values.
    mutating func blob(_ blob: Blob) {
        if blobNumbers[blob.name] == nil {
            blobNumbers[blob.name] = blobs.count
            blobs.append(blob)
        }
        values.number(blobNumbers[blob.name] ?? 0)
    }

    // MARK: parcels

    mutating func parcel(_ parcel: Parcel, _ role: clua_parcel_role = CLUA_STORED) throws(Failure) {
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        let isWritten = unsafe visitingCode { visitor in unsafe clua_wire_write(parcel.pointer, visitor, &bytes, &count) }
        guard isWritten, let bytes = unsafe bytes else {
            throw Failure(message: "not enough memory to send \(purpose) to a cluster")
        }
        _ = unsafe take(bytes, count)
        unsafe number(clua_parcel_string_count(parcel.pointer))
        for index in 0..<(unsafe clua_parcel_string_count(parcel.pointer)) { string(index, of: parcel) }
        unsafe number(clua_parcel_reference_count(parcel.pointer))
        for index in 0..<(unsafe clua_parcel_reference_count(parcel.pointer)) {
            try unsafe reference(clua_parcel_reference(parcel.pointer, index).pointee, at: index, of: parcel, role)
        }
        unsafe number(clua_parcel_frozen_count(parcel.pointer))
        for index in 0..<(unsafe clua_parcel_frozen_count(parcel.pointer)) {
            try unsafe frozen(FrozenValue(retaining: clua_parcel_frozen(parcel.pointer, index)))
        }
    }

    private func visitingCode(_ write: (UnsafePointer<clua_code_visitor>?) -> Bool) -> Bool {
        remembersCode ? unsafe SentCode.adding { unsafe write($0) } : write(nil)
    }

    /// Writes bytes from malloc, and owns them from then on. Returns the blob if they have become one.
    private mutating func take(_ bytes: UnsafeMutablePointer<UInt8>, _ count: Int) -> Blob? {
        let contents = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
        flag(count >= fewestBlobBytes)
        if count < fewestBlobBytes {
            unsafe values.counted(contents)
            unsafe free(bytes)
            return nil
        }
        let address = UInt(bitPattern: bytes)
        let made = unsafe Blob(contents) { unsafe free(UnsafeMutableRawPointer(bitPattern: address)) }
        blob(made)
        return made
    }

    private mutating func frozen(_ value: FrozenValue) throws(Failure) {
        if let known = frozenValues?.blob(of: value) {
            flag(true)
            return blob(known)
        }
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0, refusal: UnsafePointer<CChar>?
        let isWritten = unsafe visitingCode { visitor in unsafe clua_wire_write_frozen(value.table, visitor, &bytes, &count, &refusal) }
        guard isWritten, let bytes = unsafe bytes else {
            throw Failure(
                message: unsafe refusal.map {
                    unsafe "\(purpose) has a frozen value with \(String(cString: $0)), which cannot be sent to a cluster"
                }
                    ?? "not enough memory to send a frozen value of \(purpose) to a cluster")
        }
        if let made = unsafe take(bytes, count) { frozenValues?.keep(made, of: value) }
    }

    private mutating func string(_ index: Int, of parcel: Parcel) {
        guard let string = unsafe clua_parcel_string(parcel.pointer, index) else { return }
        var count = 0
        let contents = unsafe UnsafeRawBufferPointer(start: clua_wire_string(string, &count), count: count)
        if count < fewestBlobBytes {
            flag(false)
            return unsafe values.counted(contents)
        }
        flag(true)
        unsafe clua_wire_retain(string)
        let address = UInt(bitPattern: string)
        unsafe blob(Blob(contents) { unsafe clua_wire_release(OpaquePointer(bitPattern: address)) })
    }

    // MARK: objects

    private static let itself = 0, firstObject = 1

    private mutating func reference(
        _ reference: clua_reference, at index: Int, of parcel: Parcel, _ role: clua_parcel_role
    ) throws(Failure) {
        guard let object = unsafe reference.object.map({ unsafe Unmanaged<AnyObject>.fromOpaque($0).takeUnretainedValue() }) else {
            throw Failure(message: "opscript bug: a reference without an object")
        }
        if let owner, object === owner { return number(Self.itself) }
        guard let refusal = refusal(of: object) else { return number(Self.firstObject + numberOf(object)) }
        throw Failure(message: "\(Self.path(of: index, in: parcel, role) ?? "a value") of \(purpose) \(refusal)")
    }

    private mutating func numberOf(_ object: AnyObject) -> Int {
        if let known = numbers[ObjectIdentifier(object)] { return known }
        numbers[ObjectIdentifier(object)] = objects.count
        objects.append(object)
        return objects.count - 1
    }

    /// The reason why an object cannot be sent to another machine; nil if it can.
    private func refusal(of object: AnyObject) -> String? {
        if objects.count >= Self.mostObjects, numbers[ObjectIdentifier(object)] == nil {
            return "leads to more than \(Self.mostObjects) operations, which is too much to send"
        }
        switch object {
        case let operation as LuaOperation where operation.kind == .group: return "is a group, which stays where it was made"
        case let operation as LuaOperation where operation.isFinished: return nil
        case let operation as LuaOperation:
            return
                "is \(operation.displayName), which has not finished, so that a worker elsewhere could not use it: add it to the dependencies"
        case let scriptClass as ScriptClass:
            return scriptClass.latest == nil ? "is the class \(scriptClass.name), whose contents cannot be sent" : nil
        case is OperationFailure: return nil
        case is Operation: return "is an operation of the program, which stays there"
        case is OperationQueue: return "is a queue, which stays where it was made: do not capture it"
        case is Channel: return "is a channel, which stays where it was made: pass values, or return them"
        default: return "is an object that stays where it was made: pass what it is made from instead"
        }
    }

    /// The path of a reference, such as `upvalue 'log' of function 'compile'`.
    private static func path(of index: Int, in parcel: Parcel, _ role: clua_parcel_role) -> String? {
        var key = unsafe clua_key()
        guard unsafe clua_key_make(parcel.pointer, role, nil, &key) == CLUA_KEY_MADE else { return nil }
        defer { unsafe clua_key_free(&key) }
        for met in 0..<(unsafe key.met_count) where unsafe key.met[met].reference == UInt32(index) {
            return unsafe String(cString: key.met[met].path)
        }
        return nil
    }

    mutating func failure(_ failure: OperationFailure) throws(Failure) {
        text(failure.message)
        text(failure.traceback)
        text(failure.kind.rawValue)
        for name in [failure.operationName, failure.queueName, failure.groupName, failure.cause] {
            try optional(name) { writer, name throws(Failure) in writer.text(name) }
        }
    }

    /// Writes the number of an operation that has finished.
    mutating func finished(_ operation: LuaOperation) throws(Failure) {
        number(numberOf(operation))
    }

    private mutating func contents(of object: AnyObject) throws(Failure) {
        switch object {
        case let operation as LuaOperation:
            try optional(operation.name) { writer, name throws(Failure) in writer.text(name) }
            number(operation.outcome == .succeeded ? 0 : operation.outcome == .failed ? 1 : 2)
            let error = operation.failureLeftUnread
            try optional(error) { writer, error throws(Failure) in
                writer.failures.append(error)
                try writer.failure(error)
                try writer.optional(error.value) { writer, value throws(Failure) in try writer.parcel(value) }
            }
            let results = operation.results ?? []
            number(results.count)
            for result in results { try parcel(result, CLUA_RESULTS) }
            try storage(operation.storage)
        case let scriptClass as ScriptClass:
            values.number(scriptClass.version)
            if let latest = scriptClass.latest { try parcel(latest) }
        default: break
        }
    }

    mutating func storage(_ storage: [String: Parcel]) throws(Failure) {
        number(storage.count)
        for (name, value) in storage.sorted(by: { $0.key < $1.key }) {
            text(name)
            try parcel(value)
        }
    }

    // MARK: the end

    /// Returns everything that was written, as the payload of a message.
    mutating func finish() throws(Failure) -> Payload {
        let bytes = try bytes()
        if bytes.count <= Self.mostInlineBytes { return Payload(bytes: [0] + bytes, contents: blobs) }
        return Payload(bytes: [1], contents: blobs + [Blob(copying: bytes)])
    }

    /// Everything that was written, in one piece.
    mutating func bytes() throws(Failure) -> [UInt8] {
        let main = values.bytes
        values = ByteWriter()
        // Contents may refer to further objects.
        var index = 0
        while index < objects.count {
            try contents(of: objects[index])
            index += 1
        }
        let contents = values.bytes
        values = ByteWriter()
        number(objects.count)
        for object in objects {
            switch object {
            case let operation as LuaOperation:
                values.byte(ObjectForm.operation.rawValue)
                values.number(operation.kind == .blocks ? 1 : 0)
            case let scriptClass as ScriptClass:
                values.byte(ObjectForm.scriptClass.rawValue)
                text(scriptClass.name)
                flag(scriptClass.isGroup)
                values.number(scriptClass.identity)
            default:
                values.byte(ObjectForm.failure.rawValue)
                if let error = object as? OperationFailure { try failure(error) }
            }
        }
        number(describesOwner ? 1 + (owner?.kind.rawValue ?? 0) : 0)
        if describesOwner { number(owner?.scriptClass.flatMap { numbers[ObjectIdentifier($0)] }.map { $0 + 1 } ?? 0) }
        values.raw(contents)
        values.raw(main)
        return values.bytes
    }
}
