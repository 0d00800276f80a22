import Synchronization

extension LuaOperation {
    /// What an operation has beside its origin, in a word. It is plain as long as that is little: then it is changed by exchanging the word.
    /// After that it is the address of its variables, for good.
    struct Content: Equatable, AtomicRepresentable {
        // Of a plain one, from the low end: flags; the body, whose address has zeros there and at the other end, so that whoever looks for
        // leaks sees it; or what that has returned, with its counts; further flags.
        private var bits: UInt64

        private static let plain: UInt64 = 1 << 0
        private static let hasBody: UInt64 = 1 << 1
        private static let isInHandle: UInt64 = 1 << 2  // of a body
        private static let hasResults: UInt64 = 1 << 2  // without one
        private static let hasCompletion: UInt64 = 1 << 3
        private static let address: UInt64 = (1 << 48 - 1) & ~15
        private static let bytesAt: UInt64 = 4  // six
        private static let byteCountAt: UInt64 = 52  // three bits
        private static let valueCountAt: UInt64 = 55  // four bits
        private static let isPosted: UInt64 = 1 << 63
        private static let ofCompletion = hasCompletion | isPosted

        /// The bodies are what the origin says.
        static let nothing = Content(bits: 0)

        private init(bits: UInt64) { self.bits = bits }

        init(_ variables: UnsafeMutablePointer<Variables>) { bits = UInt64(UInt(bitPattern: variables)) }

        /// One body.
        ///
        /// - Parameters:
        ///   - isInHandle: the handle of its home has it, too.
        ///   - hasCompletion: there is a completion block in that handle, which is pinned for it.
        @inline(__always)
        init(body: consuming Parcel, isInHandle: Bool, hasCompletion: Bool) {
            let reference = unsafe body.takeReference()
            let address = unsafe UInt64(UInt(bitPattern: reference.toOpaque()))
            bits = address & Content.address | Content.plain | Content.hasBody
            if isInHandle { bits |= Content.isInHandle }
            if hasCompletion { bits |= Content.hasCompletion }
            if address & ~Content.address == 0 { return }
            // Where addresses are longer.
            self = unsafe Content(Variables.make(Mutable(of: self, body: Parcel(taking: reference))))
        }

        /// Nil: it is plain.
        @inline(__always) var variables: UnsafeMutablePointer<Variables>? {
            bits & Content.plain == 0 ? unsafe UnsafeMutablePointer(bitPattern: UInt(bits)) : nil
        }

        @inline(__always) var isPlain: Bool { bits & Content.plain != 0 || bits == 0 }
        @inline(__always) private func has(_ flag: UInt64) -> Bool { bits & flag != 0 }

        // MARK: of a plain one

        @inline(__always) var isInHandle: Bool { has(Content.isInHandle) }
        @inline(__always) var hasCompletion: Bool { has(Content.hasCompletion) }
        /// The operation has finished, and that state has been told.
        @inline(__always) var isPosted: Bool { has(Content.isPosted) }

        /// Its body, which who has put another word into this one's place has to release.
        @inline(__always) var body: Unmanaged<Parcel.Storage>? {
            // Safety: it was retained for the word.
            has(Content.hasBody)
                ? unsafe UnsafeRawPointer(bitPattern: UInt(bits & Content.address)).map { unsafe Unmanaged.fromOpaque($0) } : nil
        }

        /// Takes the body out, if there is one.
        @inline(__always)
        mutating func takeBody() -> Unmanaged<Parcel.Storage>? {
            guard let body = unsafe body else { return nil }
            bits = bits & Content.ofCompletion | Content.plain
            return unsafe body
        }

        /// False: they are too many.
        @inline(__always)
        mutating func setResults(_ results: ReturnedValues) -> Bool {
            // The first byte of a parcel of plain values is 0.
            guard case .few(let few) = results, few.byteCount < 8, few.valueCount < 16, few.bytes.0 & 0xff == 0 else { return false }
            bits = bits & Content.ofCompletion | Content.plain | Content.hasResults
            bits |= UInt64(few.byteCount) << Content.byteCountAt | UInt64(few.valueCount) << Content.valueCountAt
            bits |= (few.bytes.0 >> 8 & (1 << 48 - 1)) << Content.bytesAt
            return true
        }

        @inline(__always) var results: ReturnedValues? {
            guard isPlain, !has(Content.hasBody), has(Content.hasResults) else { return nil }
            return .few(
                ReturnedValues.Few(
                    bytes: ((bits >> Content.bytesAt & (1 << 48 - 1)) << 8, 0), byteCount: UInt8(bits >> Content.byteCountAt & 7),
                    valueCount: UInt8(bits >> Content.valueCountAt & 15)))
        }

        @inline(__always) mutating func post() { bits |= Content.isPosted }
        @inline(__always) mutating func dropCompletion() { bits &= ~Content.ofCompletion }

        typealias AtomicRepresentation = UInt64.AtomicRepresentation

        static func encodeAtomicRepresentation(_ content: consuming Content) -> AtomicRepresentation {
            UInt64.encodeAtomicRepresentation(content.bits)
        }

        static func decodeAtomicRepresentation(_ stored: consuming AtomicRepresentation) -> Content {
            Content(bits: UInt64.decodeAtomicRepresentation(stored))
        }
    }
}
