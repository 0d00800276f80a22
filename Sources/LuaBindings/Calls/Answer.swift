import CLua
import OpEngine

#if canImport(Glibc)
    import Glibc
#endif

/// The reply of a module function. C pushes it after the function has returned.
enum Answer {
    case nothing
    case `nil`
    case boolean(Bool)
    case integer(Int)
    case number(Double)
    case string(String)
    /// An object. The function at `callbackAt` becomes the callback in its handle.
    case object(AnyObject, ObjectKind, callbackAt: Int32? = nil)
    /// A new operation. The arguments from `bodyAt` on become its body.
    case newOperation(LuaOperation, bodyAt: Int32, number: Int32 = 0, completionAt: Int32? = nil)
    /// No value. The arguments from this stack index on become a body of the operation at stack index 1.
    case addBody(at: Int32, number: Int32)
    case objects([AnyObject], ObjectKind)
    /// A new class, derived from the class at stack index 1.
    case newClass(ScriptClass)
    /// The field of the class of the operation at stack index 1, for the key at stack index 2.
    case classField
    case progress(total: Int64, completed: Int64, fraction: Double)
    /// All values of the only parcel, or the first one of each.
    case allResults([Parcel], isOneOfEach: Bool)
    /// The values in a parcel. `keeping` is an object that must stay alive until the values are decoded.
    case parcel(Parcel, keeping: AnyObject? = nil)
    /// The results of the operation at stack index 1: all of them as a table, or only the first. If `isOneOfEach`, each parcel gives one
    /// value; otherwise the only parcel gives all values.
    case results([Parcel], isOneOfEach: Bool, first: Bool)
    /// The argument at this stack index.
    case argument(Int32)
    /// Like `argument`, for an operation's handle that no longer needs its body.
    case sent(Int32)
    /// The values on top of the stack.
    case values(Int)
    /// No value. The value at this stack index becomes the completion block of the operation at stack index 1; nil removes it.
    case setCompletionBlock(at: Int32?)
    /// The completion block that this state has set on the operation at stack index 1.
    case completionBlock
    /// A new observation of the object at stack index 1, with the function at this stack index.
    case newObservation(Observation, functionAt: Int32)

    /// The part of a stream that the formats from stack index 2 on ask for. The object at stack index 1 keeps the stream alive.
    case read(ProgramStream)
    /// A function that reads so with each call.
    case lines(ProgramStream)

    static func operation(_ operation: Operation?) -> Answer {
        operation.map { .object($0, .operation) } ?? .nil
    }

    static func queue(_ queue: OperationQueue?) -> Answer {
        queue.map { .object($0, .queue) } ?? .nil
    }

    /// Writes the answer into the reply that C reads.
    consuming func write(to reply: UnsafeMutablePointer<clua_reply>) {
        switch consume self {
        case .nothing: unsafe reply.pointee.kind = CLUA_REPLY_NOTHING
        case .nil: unsafe reply.pointee.kind = CLUA_REPLY_NIL
        case .boolean(let value):
            unsafe reply.pointee.kind = CLUA_REPLY_BOOLEAN
            unsafe reply.pointee.integer = value ? 1 : 0
        case .integer(let value):
            unsafe reply.pointee.kind = CLUA_REPLY_INTEGER
            unsafe reply.pointee.integer = lua_Integer(value)
        case .number(let value):
            unsafe reply.pointee.kind = CLUA_REPLY_NUMBER
            unsafe reply.pointee.number = value
        case .string(let value):
            unsafe reply.pointee.kind = CLUA_REPLY_STRING
            unsafe writeString(value, to: reply)
        case .object(let object, let kind, let callback):
            unsafe reply.pointee.kind = CLUA_REPLY_HANDLE
            unsafe reply.pointee.completion_index = callback ?? 0
            unsafe reply.pointee.reference = clua_reference(object, kind)
        case .addBody(let first, let number):
            unsafe reply.pointee.kind = CLUA_REPLY_ADD_BODY
            unsafe reply.pointee.body_first = first
            unsafe reply.pointee.body_number = number
        case .newOperation(let operation, let first, let number, let completion):
            unsafe reply.pointee.kind = CLUA_REPLY_HANDLE
            unsafe reply.pointee.body_first = first
            unsafe reply.pointee.body_number = number
            unsafe reply.pointee.completion_index = completion ?? 0
            unsafe reply.pointee.reference = clua_reference(operation, .operation)
            unsafe reply.pointee.is_new = true
        case .objects(let objects, let kind):
            unsafe reply.pointee.kind = CLUA_REPLY_HANDLES
            unsafe writeObjects(objects, kind, to: reply)
        case .newClass(let scriptClass):
            unsafe reply.pointee.kind = CLUA_REPLY_CLASS
            unsafe writeString(scriptClass.name, to: reply)
            unsafe writeObjects(CollectionOfOne(scriptClass), .scriptClass, to: reply)
        case .classField: unsafe reply.pointee.kind = CLUA_REPLY_CLASS_FIELD
        case .progress(let total, let completed, let fraction):
            unsafe reply.pointee.kind = CLUA_REPLY_PROGRESS
            unsafe reply.pointee.integer = total
            unsafe reply.pointee.integer2 = completed
            unsafe reply.pointee.number = fraction
        case .parcel(let parcel, let owner):
            unsafe reply.pointee.kind = CLUA_REPLY_PARCEL
            unsafe writeParcel(parcel, keeping: owner, to: reply)
        case .allResults(let parcels, let isOneOfEach):
            unsafe reply.pointee.kind = CLUA_REPLY_PARCEL
            if isOneOfEach { unsafe writeParcels(parcels, to: reply) } else { unsafe writeParcel(parcels.first ?? .empty, to: reply) }
        case .results(let parcels, let isOneOfEach, let first):
            unsafe reply.pointee.kind = CLUA_REPLY_RESULTS
            unsafe reply.pointee.integer = first ? 1 : 0
            if isOneOfEach { unsafe writeParcels(parcels, to: reply) } else { unsafe writeParcel(parcels.first ?? .empty, to: reply) }
        case .argument(let index):
            unsafe reply.pointee.kind = CLUA_REPLY_ARGUMENT
            unsafe reply.pointee.integer = lua_Integer(index)
        case .sent(let index):
            unsafe reply.pointee.kind = CLUA_REPLY_SENT
            unsafe reply.pointee.integer = lua_Integer(index)
        case .values(let count):
            unsafe reply.pointee.kind = CLUA_REPLY_VALUES
            unsafe reply.pointee.integer = lua_Integer(count)
        case .setCompletionBlock(let index):
            unsafe reply.pointee.kind = CLUA_REPLY_SET_COMPLETION
            unsafe reply.pointee.completion_index = index ?? 0
        case .newObservation(let observation, let function):
            unsafe reply.pointee.kind = CLUA_REPLY_OBSERVATION
            unsafe reply.pointee.integer = lua_Integer(function)
            unsafe reply.pointee.reference = clua_reference(observation, .observation)
        case .read(let stream):
            unsafe reply.pointee.kind = CLUA_REPLY_READ
            unsafe reply.pointee.stream = UnsafeMutableRawPointer(stream.pointer)
        case .lines(let stream):
            unsafe reply.pointee.kind = CLUA_REPLY_LINES
            unsafe reply.pointee.stream = UnsafeMutableRawPointer(stream.pointer)
        case .completionBlock: unsafe reply.pointee.kind = CLUA_REPLY_COMPLETION
        }
    }
}

extension CallError {
    /// Writes the error into the reply that C reads.
    func write(to reply: UnsafeMutablePointer<clua_reply>) {
        switch self {
        case .message(let text):
            unsafe reply.pointee.kind = CLUA_REPLY_ERROR
            unsafe writeString(text, to: reply)
        case .argument(let index, let text):
            unsafe reply.pointee.kind = CLUA_REPLY_ARGUMENT_ERROR
            unsafe reply.pointee.integer = lua_Integer(index)
            unsafe writeString(text, to: reply)
        case .raised(let value, let text):
            unsafe reply.pointee.kind = CLUA_REPLY_RAISE
            if let value { unsafe writeParcel(value, to: reply) } else { unsafe writeString(text, to: reply) }
        case .noMemory: unsafe reply.pointee.kind = CLUA_REPLY_NO_MEMORY
        case .stop(let reason):
            unsafe reply.pointee.kind = CLUA_REPLY_STOP
            unsafe reply.pointee.integer = lua_Integer(reason.rawValue)
        }
    }
}

private func allocate<T>(_ count: Int, of type: T.Type) -> UnsafeMutablePointer<T> {
    guard let block = unsafe malloc(max(1, count * MemoryLayout<T>.stride)) else { fatalError("out of memory") }
    return unsafe block.bindMemory(to: type, capacity: count)
}

private func writeString(_ text: String, to reply: UnsafeMutablePointer<clua_reply>) {
    var text = text
    text.withUTF8 { utf8 in
        let bytes = unsafe allocate(utf8.count, of: UInt8.self)
        if let start = utf8.baseAddress { unsafe bytes.update(from: start, count: utf8.count) }
        unsafe reply.pointee.bytes = UnsafeMutableRawPointer(bytes).assumingMemoryBound(to: CChar.self)
        unsafe reply.pointee.byte_count = utf8.count
    }
}

private func writeObjects(_ objects: some Collection<AnyObject>, _ kind: ObjectKind, to reply: UnsafeMutablePointer<clua_reply>) {
    let references = unsafe allocate(objects.count, of: clua_reference.self)
    for (index, object) in objects.enumerated() { unsafe references[index] = clua_reference(object, kind) }
    unsafe reply.pointee.references = references
    unsafe reply.pointee.reference_count = objects.count
}

private func writeParcel(_ parcel: Parcel, keeping owner: AnyObject? = nil, to reply: UnsafeMutablePointer<clua_reply>) {
    unsafe reply.pointee.parcel = parcel.pointer
    unsafe reply.pointee.parcel_owner = Unmanaged<AnyObject>.passRetained(KeptParcels(parcels: [parcel], owner: owner)).toOpaque()
}

private func writeParcels(_ parcels: [Parcel], to reply: UnsafeMutablePointer<clua_reply>) {
    let pointers = unsafe allocate(parcels.count, of: UnsafePointer<clua_parcel>?.self)
    for (index, parcel) in parcels.enumerated() { unsafe pointers[index] = parcel.pointer }
    unsafe reply.pointee.parcels = pointers
    unsafe reply.pointee.parcel_count = parcels.count
    unsafe reply.pointee.parcel_owner = Unmanaged<AnyObject>.passRetained(KeptParcels(parcels: parcels, owner: nil)).toOpaque()
}

/// Keeps the parcels that C is about to read.
private final class KeptParcels {
    let parcels: [Parcel]
    let owner: AnyObject?

    init(parcels: [Parcel], owner: AnyObject?) {
        self.parcels = parcels
        self.owner = owner
    }
}
