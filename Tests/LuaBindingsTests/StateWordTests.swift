import CLua
import TestSupport
import Testing

@testable import LuaBindings

/// Compares the packed word with a structure that has a field for each property.
@Suite struct StateWordTests {
    /// The content of an inline word, unpacked.
    private struct Reference {
        /// The index of one of the test's parcels.
        var body: Int?
        var isInHandle = false
        var results: ReturnedValues.Few?
        var hasCompletion = false
        var isPosted = false

        mutating func setResults(_ few: ReturnedValues.Few) -> Bool {
            if few.byteCount > 7 || few.valueCount > 15 || few.bytes.0 & 0xff != 0 { return false }
            (body, isInHandle, results) = (nil, false, few)
            return true
        }
    }

    private let parcels = (0..<4).map { _ in unsafe Parcel(clua_parcel()) }

    private func number(of body: Unmanaged<Parcel.Storage>?) -> Int? {
        guard let body = unsafe body else { return nil }
        return parcels.firstIndex { unsafe UnsafeRawPointer($0.pointer) == UnsafeRawPointer(Parcel(taking: body.retain()).pointer) }
    }

    private func expectSame(_ word: LuaOperation.StateWord, _ reference: Reference, _ comment: Comment) {
        #expect(unsafe word.isInline && word.outOfLine == nil, comment)
        #expect(unsafe number(of: word.body) == reference.body, comment)
        #expect(word.hasCompletion == reference.hasCompletion && word.isPosted == reference.isPosted, comment)
        if reference.body != nil { #expect(word.isInHandle == reference.isInHandle, comment) }
        guard let expected = reference.results else { return #expect(word.results == nil, comment) }
        guard case .few(let few)? = word.results else { return #expect(Bool(false), comment) }
        // A word keeps only the bytes of the results.
        let kept: UInt64 = expected.byteCount == 0 ? 0 : ~0 >> (64 - 8 * UInt64(expected.byteCount))
        #expect(few.bytes.0 & kept == expected.bytes.0 & kept, comment)
        #expect(few.byteCount == expected.byteCount && few.valueCount == expected.valueCount, comment)
    }

    @Test func itSaysWhatTheFieldsSay() {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            var reference = Reference()
            var word = LuaOperation.StateWord.nothing
            if Bool.random(using: &random) {
                reference = Reference(
                    body: Int.random(in: 0..<4, using: &random), isInHandle: .random(using: &random),
                    hasCompletion: .random(using: &random)
                )
                word = .init(
                    body: parcels[reference.body!], isInHandle: reference.isInHandle, hasCompletion: reference.hasCompletion)
            }
            for step in 0..<20 {
                expectSame(word, reference, "seed \(seed), before step \(step)")
                switch Int.random(in: 0..<5, using: &random) {
                case 0:
                    let taken = unsafe word.takeBody()
                    #expect(unsafe number(of: taken) == reference.body)
                    unsafe taken?.release()
                    if reference.body != nil { (reference.body, reference.isInHandle) = (nil, false) }
                case 1:
                    // The owner of a word takes its body before it sets results.
                    if reference.body != nil { break }
                    let low: UInt64 = Bool.random(using: &random) ? 0 : 1
                    let few = ReturnedValues.Few(
                        bytes: (random.next() & ~0xff | low, 0), byteCount: .random(in: 0...9, using: &random),
                        valueCount: .random(in: 0...17, using: &random))
                    let isStored = word.setResults(.few(few))
                    let isStoredInFields = reference.setResults(few)
                    #expect(isStored == isStoredInFields, "seed \(seed)")
                case 2:
                    if !reference.hasCompletion { break }
                    word.post()
                    reference.isPosted = true
                case 3:
                    word.dropCompletion()
                    (reference.hasCompletion, reference.isPosted) = (false, false)
                default:
                    let copy = LuaOperation.StateWord.decodeAtomicRepresentation(
                        LuaOperation.StateWord.encodeAtomicRepresentation(word))
                    #expect(copy == word)
                }
            }
            unsafe word.takeBody()?.release()
        }
    }

    @Test func parcelsAreNotForFewResults() {
        var word = LuaOperation.StateWord.nothing
        let isStored = word.setResults(.parcel(parcels[0]))
        #expect(!isStored)
        #expect(word == .nothing)
    }

    @Test func theAddressOfAnObjectIsOutOfLine() {
        let state = LuaOperation.OutOfLineState(LuaOperation.Fields(bodies: .empty))
        let word = unsafe LuaOperation.StateWord(.passUnretained(state))
        #expect(unsafe !word.isInline && word.outOfLine?.takeUnretainedValue() === state && word.body == nil && word.results == nil)
    }
}
