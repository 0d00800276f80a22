import TestSupport
import Testing

@testable import OpEngine

@Suite struct RegistrationListTests {
    private func registration() -> Registration {
        Registration(key: .isFinished, options: [], initial: false, read: { _ in false }, handler: { _, _ in })
    }

    /// The list has the order of an array, whatever is added and removed.
    @Test func keepsTheOrderOfAdding() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed), list = RegistrationList(), model: [Registration] = []
        for _ in 0..<2000 {
            if model.isEmpty || Bool.random(using: &random) {
                let added = registration()
                list.append(added)
                model.append(added)
            } else {
                let removed = model.remove(at: Int.random(in: model.indices, using: &random))
                #expect(list.remove(removed) === removed)
                #expect(list.remove(removed) == nil)
            }
            #expect(list.count == model.count && list.isEmpty == model.isEmpty)
            #expect(list.elementsEqual(model) { $0 === $1 }, "seed \(seed)")
        }
    }

    /// A search for each of so many observers would take minutes.
    @Test func removesManyWithoutSearching() {
        var list = RegistrationList()
        let all = (0..<300_000).map { _ in registration() }
        for one in all { list.append(one) }
        for one in all.reversed() { _ = list.remove(one) }
        for one in all { list.append(one) }
        for one in all { _ = list.remove(one) }
        #expect(list.isEmpty)
    }
}
