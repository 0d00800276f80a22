import Synchronization

extension LuaOperation {
    /// The state of an operation in one word: either the state itself (inline), or the address of an object that has it (out of line).
    ///
    /// `LuaOperation+State.swift` describes the two forms. A word that is out of line never becomes inline again. The tests compare this
    /// type with a structure that has a field for each property.
    ///
    /// The inline form costs this type, and a second form in `LuaOperation+State.swift`. It saves an object with a lock: L1 takes 0.80
    /// of the time, L1h 0.77 (0.94 and 0.85 of the instructions), and a script's operation 157 bytes instead of 215 while it waits, 250 instead
    /// of 311 when it has finished.
    struct StateWord: Equatable, AtomicRepresentable {
        // An inline word, from the lowest bit: four flags, 44 or 48 bits for the address of the body or the bytes of the results, the
        // counts of the results, and one flag at the top. The address stays at its place in the word, so that leak checkers find it.
        private var bits: UInt64

        private static let inline: UInt64 = 1 << 0
        private static let hasBody: UInt64 = 1 << 1
        private static let isInHandle: UInt64 = 1 << 2  // if there is a body
        private static let hasResults: UInt64 = 1 << 2  // if there is none
        private static let hasCompletion: UInt64 = 1 << 3
        private static let address: UInt64 = (1 << 48 - 1) & ~15
        private static let bytesShift: UInt64 = 4  // six bytes
        private static let byteCountShift: UInt64 = 52  // three bits
        private static let valueCountShift: UInt64 = 55  // four bits
        private static let isPosted: UInt64 = 1 << 63
        private static let completionFlags = hasCompletion | isPosted
        private static let bytesMask: UInt64 = 1 << 48 - 1

        /// Inline and unchanged since the operation was made. The bodies are those of the origin.
        static let nothing = StateWord(bits: 0)

        private init(bits: UInt64) { self.bits = bits }

        /// Out of line.
        init(_ outOfLine: Unmanaged<OutOfLineState>) { bits = unsafe UInt64(UInt(bitPattern: outOfLine.toOpaque())) }

        /// Inline with one body, which the word owns. Out of line if the address of the body does not fit.
        ///
        /// - Parameters:
        ///   - isInHandle: whether the handle of the home state also holds the body.
        ///   - hasCompletion: whether that handle has a completion block and is pinned for it.
        @inline(__always)
        init(body: consuming Parcel, isInHandle: Bool, hasCompletion: Bool) {
            let reference = unsafe body.takeReference()
            let address = unsafe UInt64(UInt(bitPattern: reference.toOpaque()))
            bits = address & StateWord.address | StateWord.inline | StateWord.hasBody
            if isInHandle { bits |= StateWord.isInHandle }
            if hasCompletion { bits |= StateWord.hasCompletion }
            if address & ~StateWord.address == 0 { return }
            self = unsafe StateWord(.passRetained(OutOfLineState(Fields(of: self, body: Parcel(taking: reference)))))
        }

        /// Nil if the word is inline.
        @inline(__always) var outOfLine: Unmanaged<OutOfLineState>? {
            // Safety: the word owns a reference to the state.
            bits & StateWord.inline == 0 ? unsafe UnsafeRawPointer(bitPattern: UInt(bits)).map { unsafe .fromOpaque($0) } : nil
        }

        @inline(__always) var isInline: Bool { bits & StateWord.inline != 0 || bits == 0 }
        @inline(__always) private func has(_ flag: UInt64) -> Bool { bits & flag != 0 }

        // MARK: An inline word

        @inline(__always) var isInHandle: Bool { has(StateWord.isInHandle) }
        @inline(__always) var hasCompletion: Bool { has(StateWord.hasCompletion) }
        /// Whether the operation has finished and has told the home state.
        @inline(__always) var isPosted: Bool { has(StateWord.isPosted) }

        /// The completion block, if the word records one.
        @inline(__always) var completion: Completion? {
            hasCompletion ? Completion(place: .home, isPosted: isPosted) : nil
        }

        /// The body, which the word owns. The caller that replaces this word must release the body.
        @inline(__always) var body: Unmanaged<Parcel.Storage>? {
            // Safety: the word owns a reference to the body.
            has(StateWord.hasBody)
                ? unsafe UnsafeRawPointer(bitPattern: UInt(bits & StateWord.address)).map { unsafe Unmanaged.fromOpaque($0) } : nil
        }

        /// Removes the body from the word and returns it with the word's reference.
        @inline(__always)
        mutating func takeBody() -> Unmanaged<Parcel.Storage>? {
            guard let body = unsafe body else { return nil }
            bits = bits & StateWord.completionFlags | StateWord.inline
            return unsafe body
        }

        /// Stores the results in place of the body. Returns false, and changes nothing, if the word has no room for them.
        @inline(__always)
        mutating func setResults(_ results: ReturnedValues) -> Bool {
            // The first byte of a parcel of plain values is 0 and is not stored.
            guard case .few(let few) = results, few.byteCount < 8, few.valueCount < 16, few.bytes.0 & 0xff == 0 else { return false }
            bits = bits & StateWord.completionFlags | StateWord.inline | StateWord.hasResults
            bits |= UInt64(few.byteCount) << StateWord.byteCountShift | UInt64(few.valueCount) << StateWord.valueCountShift
            bits |= (few.bytes.0 >> 8 & StateWord.bytesMask) << StateWord.bytesShift
            return true
        }

        @inline(__always) var results: ReturnedValues? {
            guard isInline, !has(StateWord.hasBody), has(StateWord.hasResults) else { return nil }
            return .few(
                ReturnedValues.Few(
                    bytes: ((bits >> StateWord.bytesShift & StateWord.bytesMask) << 8, 0),
                    byteCount: UInt8(bits >> StateWord.byteCountShift & 7), valueCount: UInt8(bits >> StateWord.valueCountShift & 15)))
        }

        /// Records that the operation has finished and has told the home state.
        @inline(__always) mutating func post() { bits |= StateWord.isPosted }
        /// Removes the completion block, because it runs now or was taken away.
        @inline(__always) mutating func dropCompletion() { bits &= ~StateWord.completionFlags }

        // MARK: An atomic word

        typealias AtomicRepresentation = UInt64.AtomicRepresentation

        static func encodeAtomicRepresentation(_ word: consuming StateWord) -> AtomicRepresentation {
            UInt64.encodeAtomicRepresentation(word.bits)
        }

        static func decodeAtomicRepresentation(_ stored: consuming AtomicRepresentation) -> StateWord {
            StateWord(bits: UInt64.decodeAtomicRepresentation(stored))
        }
    }
}
