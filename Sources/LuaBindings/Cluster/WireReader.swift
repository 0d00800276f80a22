import CLua
import Glibc
import OpCluster
@_spi(Subclassing) import OpEngine

/// Reads the bytes that `WireWriter` has written. Any program that has the key may send them; without a key, any program that reaches the
/// server.
struct WireReader {
    private var reader: ByteReader
    private let blobs: [Blob]
    private var objects: [(object: AnyObject, kind: ObjectKind)] = []
    private let core: RuntimeCore
    private let frozenValues: FrozenValues
    /// Whether a worker has sent the bytes. Then the values run no code here, and have only functions of `SentCode`.
    private let isFromWorker: Bool
    /// The operation that the values belong to.
    private(set) var owner: LuaOperation?
    /// The errors of the operations that were read. See `WireWriter.failures`.
    private(set) var failures: [OperationFailure] = []

    static let malformed = Failure(message: "what came from another member of the cluster is damaged")

    /// Reads the objects, which precede the values.
    ///
    /// - Parameters:
    ///   - owner: the operation that the values belong to; nil to make it if the bytes describe it.
    ///   - frozenValues: the values that were sent or received before.
    ///   - isFromWorker: whether a worker has sent the bytes, to the coordinator.
    init(
        _ bytes: [UInt8], _ blobs: [Blob], for owner: LuaOperation?, core: RuntimeCore, _ frozenValues: FrozenValues, isFromWorker: Bool
    ) throws(Failure) {
        (self.blobs, self.owner, self.core, self.frozenValues, self.isFromWorker) = (blobs, owner, core, frozenValues, isFromWorker)
        var contents = bytes.dropFirst()
        if bytes.first == 1, let last = blobs.last { contents = last.copy[...] } else if bytes.first != 0 { throw Self.malformed }
        reader = ByteReader(contents)
        try readObjects()
    }

    /// Reads bytes of a coordinator without blobs.
    init(_ bytes: ArraySlice<UInt8>, core: RuntimeCore) throws(Failure) {
        (blobs, self.core, frozenValues, isFromWorker) = ([], core, FrozenValues(), false)
        reader = ByteReader(bytes)
        try readObjects()
    }

    private mutating func read<Value>(_ read: (inout ByteReader) throws(MalformedMessage) -> Value) throws(Failure) -> Value {
        do { return try read(&reader) } catch { throw Self.malformed }
    }

    mutating func number() throws(Failure) -> Int { try read { reader throws(MalformedMessage) in try reader.count() } }
    mutating func text() throws(Failure) -> String { try read { reader throws(MalformedMessage) in try reader.text() } }
    mutating func flag() throws(Failure) -> Bool { try read { reader throws(MalformedMessage) in try reader.byte() } != 0 }
    mutating func seconds() throws(Failure) -> Double { try read { reader throws(MalformedMessage) in try reader.seconds() } }

    mutating func optional<Value>(_ read: (inout WireReader) throws(Failure) -> Value) throws(Failure) -> Value? {
        try flag() ? try read(&self) : nil
    }

    mutating func list<Value>(_ read: (inout WireReader) throws(Failure) -> Value) throws(Failure) -> [Value] {
        var values: [Value] = []
        for _ in 0..<(try number()) { values.append(try read(&self)) }
        return values
    }

    mutating func blob() throws(Failure) -> Blob {
        let index = try number()
        guard blobs.indices.contains(index) else { throw Self.malformed }
        return blobs[index]
    }

    // MARK: parcels

    mutating func parcel() throws(Failure) -> Parcel {
        let large = try optional { reader throws(Failure) in try reader.blob() }
        let small = large == nil ? try read { reader throws(MalformedMessage) in try reader.counted() } : []
        var strings: [OpaquePointer?] = unsafe [], references: [clua_reference] = unsafe [], frozen: [FrozenValue] = []
        do throws(Failure) {
            for _ in 0..<(try number()) { unsafe strings.append(try string()) }
            for _ in 0..<(try number()) { unsafe references.append(try reference()) }
            for _ in 0..<(try number()) { frozen.append(try self.frozen()) }
        } catch {
            while let string = unsafe strings.popLast() { unsafe clua_wire_release(string) }
            while let reference = unsafe references.popLast() { unsafe Unmanaged<AnyObject>.fromOpaque(reference.object).release() }
            throw error
        }
        var parcel = unsafe clua_parcel()
        func make(_ bytes: UnsafeRawBufferPointer, _ visitor: UnsafePointer<clua_code_visitor>?) -> Bool {
            unsafe clua_wire_read(
                bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count, strings, strings.count, references, references.count,
                frozen.map { unsafe $0.retained() }, frozen.count, visitor, &parcel)
        }
        let isMade = try unsafe visitingCode { visitor in
            if let large { unsafe make(large.bytes, visitor) } else { unsafe small.withUnsafeBytes { unsafe make($0, visitor) } }
        }
        guard isMade else { throw Self.malformed }
        let made = unsafe Parcel(parcel)
        made.count(in: core.ledger)
        try core.ledger?.check()
        return made
    }

    private func visitingCode<Value>(_ read: (UnsafePointer<clua_code_visitor>?) -> Value) throws(Failure) -> Value {
        isFromWorker ? try unsafe SentCode.admitting { unsafe read($0) } : read(nil)
    }

    private mutating func string() throws(Failure) -> OpaquePointer {
        let string: OpaquePointer?
        if try flag() {
            let blob = try blob()
            let bytes = unsafe blob.bytes.assumingMemoryBound(to: CChar.self)
            unsafe string = clua_wire_string_of_object(
                bytes.baseAddress, bytes.count, blob.room, Unmanaged.passRetained(blob).toOpaque())
        } else {
            let bytes = try read { reader throws(MalformedMessage) in try reader.counted() }
            unsafe string = unsafe bytes.withUnsafeBytes { bytes in
                unsafe clua_wire_copy(bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
            }
        }
        guard let string = unsafe string else { throw Failure(message: "not enough memory for a string that came from a cluster") }
        return unsafe string
    }

    private mutating func frozen() throws(Failure) -> FrozenValue {
        let value: FrozenValue?
        if let blob = try optional({ reader throws(Failure) in try reader.blob() }) {
            value = try unsafe visitingCode { visitor in unsafe frozenValues.value(of: blob, visitor) }
        } else {
            let bytes = try read { reader throws(MalformedMessage) in try reader.counted() }
            value = try unsafe visitingCode { visitor in unsafe bytes.withUnsafeBytes { unsafe FrozenValue($0, visitor) } }
        }
        guard let value else { throw Self.malformed }
        return value
    }

    private mutating func reference() throws(Failure) -> clua_reference {
        let index = try number()
        if index == 0 {
            guard let owner else { throw Self.malformed }
            return unsafe clua_reference(owner, .operation)
        }
        guard objects.indices.contains(index - 1) else { throw Self.malformed }
        return unsafe clua_reference(objects[index - 1].object, objects[index - 1].kind)
    }

    // MARK: objects

    private mutating func readObjects() throws(Failure) {
        let count = try number()
        for _ in 0..<count {
            switch WireWriter.ObjectForm(rawValue: try read { reader throws(MalformedMessage) in try reader.byte() }) {
            case .operation:
                let kind: LuaOperation.Kind = try number() == 1 ? .blocks : .function
                let origin = LuaOperation.Origin(core: core, home: nil, kind: kind, group: nil)
                objects.append((LuaOperation(origin, LuaOperation.Fields(bodies: .empty)), .operation))
            case .scriptClass:
                let (name, isGroup) = (try text(), try flag())
                let identity = try read { reader throws(MalformedMessage) in try reader.number() }
                objects.append((core.scriptClass(identity, name: name, isGroup: isGroup), .scriptClass))
            case .failure: objects.append((OperationFailure(received: try failure(), value: nil, of: nil), .error))
            case nil: throw Self.malformed
            }
        }
        let kind = try number() - 1
        if kind >= 0 {
            guard let kind = LuaOperation.Kind(rawValue: kind), kind != .group else { throw Self.malformed }
            try makeOwner(kind)
        }
        for (object, _) in objects {
            if let operation = object as? LuaOperation { try finish(operation) }
            if let scriptClass = object as? ScriptClass {
                let version = try read { reader throws(MalformedMessage) in try reader.number() }
                let contents = try parcel()
                // The class of the script stays as it is, whatever a worker has made of it.
                if !isFromWorker || scriptClass.version == 0 { scriptClass.receive(contents, version: version) }
            }
        }
    }

    /// Makes the owner from the rest of its description. The caller has read the number of its kind.
    private mutating func makeOwner(_ kind: LuaOperation.Kind) throws(Failure) {
        let index = try number() - 1
        let scriptClass = objects.indices.contains(index) ? objects[index].object as? ScriptClass : nil
        let origin = LuaOperation.Origin(core: core, home: nil, kind: kind, scriptClass: scriptClass, group: nil)
        let made = LuaOperation(origin, LuaOperation.Fields(bodies: .empty))
        if owner == nil { owner = made }
    }

    struct ReceivedFailure {
        let message, traceback: String
        let kind: OperationFailure.Kind
        let operationName, queueName, groupName, cause: String?
    }

    mutating func failure() throws(Failure) -> ReceivedFailure {
        let (message, traceback, kind) = (try text(), try text(), try text())
        let name = try optional { reader throws(Failure) in try reader.text() }
        let queue = try optional { reader throws(Failure) in try reader.text() }
        let group = try optional { reader throws(Failure) in try reader.text() }
        let cause = try optional { reader throws(Failure) in try reader.text() }
        return ReceivedFailure(
            message: message, traceback: traceback, kind: OperationFailure.Kind(rawValue: kind) ?? .error, operationName: name,
            queueName: queue, groupName: group, cause: cause)
    }

    /// Gives an operation the outcome that it had on another machine.
    private mutating func finish(_ operation: LuaOperation) throws(Failure) {
        operation.name = try optional { reader throws(Failure) in try reader.text() }
        let outcome = try number()
        let error = try optional { reader throws(Failure) in
            let failure = try reader.failure()
            return (failure, try reader.optional { reader throws(Failure) in try reader.parcel() })
        }
        let results = try list { reader throws(Failure) in try reader.parcel() }
        for (name, value) in try storage() { operation.store(value, as: name) }
        let failure = error.map { OperationFailure(received: $0.0, value: $0.1, of: operation) }
        if let failure { failures.append(failure) }
        operation.finishAsReceived(results, outcome: outcome == 0 ? .succeeded : outcome == 1 ? .failed : .cancelled, failure)
    }

    mutating func storage() throws(Failure) -> [(name: String, value: Parcel)] {
        try list { reader throws(Failure) in (name: try reader.text(), value: try reader.parcel()) }
    }

    /// An operation that `WireWriter.finished` has written.
    mutating func finished() throws(Failure) -> LuaOperation {
        let index = try number()
        guard objects.indices.contains(index), let operation = objects[index].object as? LuaOperation else { throw Self.malformed }
        return operation
    }
}

extension Blob {
    var copy: [UInt8] { unsafe Array(bytes) }
}

extension LuaOperation {
    /// Makes this operation one that has finished. The caller must hold the only reference.
    fileprivate func finishAsReceived(_ results: [Parcel], outcome: OperationOutcome, _ failure: OperationFailure?) {
        withFields { $0.setAllResults(SmallArray(results.map { .parcel($0) })) }
        for result in results { keep(result) }
        if outcome == .cancelled { cancelItself() }
        // The machine on which it failed reports the failure, unless the body here reads it.
        if let failure { fail(with: failure, outcome: outcome) }
        end()
    }
}
