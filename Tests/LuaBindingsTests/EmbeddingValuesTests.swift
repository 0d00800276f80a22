import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

import struct Foundation.URL

/// The code of docs/embedding-values.md, in its order. `print` records what the page says in comments.
@Suite struct EmbeddingValuesTests {
    private static let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("docs/embedding-values.md")

    private static func lines(of text: some StringProtocol) -> [String] {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }

    /// The Swift code of the page, block by block.
    private static func blocks() throws -> [[String]] {
        try String(contentsOf: page, encoding: .utf8).split(separator: "```swift\n").dropFirst().map { part in
            lines(of: part.prefix(upTo: part.range(of: "```")?.lowerBound ?? part.endIndex))
        }
    }

    @Test func theCodeOfThePageIsTheCodeOfThisFile() throws {
        let source = Self.lines(of: try String(contentsOf: URL(fileURLWithPath: #filePath), encoding: .utf8))
        let blocks = try Self.blocks()
        #expect(blocks.count > 10)
        var start = 0
        for block in blocks {
            let found = source.indices.dropFirst(start).first { source[$0...].starts(with: block) }
            start = try #require(found, "this code is not here, or not in this order: \(block.joined(separator: "\n"))") + block.count
        }
    }

    @Test func itPrintsWhatThePageSays() throws {
        let printed = Locked<[String]>([])
        try Self.guide(printed)
        let expected = try Self.blocks().joined().compactMap { line -> String? in
            guard line.hasPrefix("print("), let comment = line.range(of: "  // ") else { return nil }
            return String(line[comment.upperBound...])
        }
        #expect(printed.withLock { $0 } == expected && expected.count > 10)
    }

    private static func guide(_ printed: Locked<[String]>) throws {
        @Sendable func print(_ items: Any...) {
            printed.withLock { $0.append(items.map { "\($0)" }.joined(separator: " ")) }
        }

        @Sendable func download(_ name: String) async throws -> String {
            await Task.yield()
            return "contents of \(name)"
        }

        let runtime = try Runtime()
        defer { runtime.close() }
        do {
            let n: Int = try runtime.evaluate("1 + 1")
            let prices: [String: [Double]] = try runtime.evaluate("return { apple = { 1, 2.5 } }")
            print(n, prices["apple"]![1])  // 2 2.5

            struct Row: Codable {
                var name: String
                var price: Double
                var tags: [String]?
            }

            try runtime.run("function total(row, rate) return row.price * (1 + rate) end")
            let total: Double = try runtime.call("total", Row(name: "apple", price: 100), 0.5)
            print(total)  // 150.0

            var job: LuaValue = ["name": "thumbnail", "sizes": [64, 128]]
            job["force"] = true
            print(job)  // {force = true, name = "thumbnail", sizes = {64, 128}}
            print(job["sizes"][2].integer!, job["sizes"].array!.count)  // 128 2
            print(try runtime.evaluate(job.description) == job)  // true

            do {
                let rows: [String: [Row]] = try runtime.evaluate("{ rows = { { name = 'a', price = 'abc' } } }")
                print(rows)
            } catch {
                print(error)  // rows[1].price: expected a number, found "abc"
            }

            try runtime.register("price") { (name: String, count: Int) in name == "apple" ? 3 * count : 4 * count }
            print(try runtime.evaluate("price('apple', 2)"))  // 6
            let message: String = try runtime.evaluate("select(2, pcall(price, 'apple', 'two'))")
            print(message)  // bad argument #2 to 'price' (number expected, got string)

            struct Order: Codable, LuaConvertible {
                var item: String
                var count: Int
            }

            try runtime.register("merge") { (orders: [Order], note: String?) in
                Order(item: orders.map(\.item).joined(separator: note ?? "+"), count: orders.map(\.count).reduce(0, +))
            }
            print(try runtime.evaluate("merge { { item = 'a', count = 1 }, { item = 'b', count = 2 } }"))  // {count = 3, item = "a+b"}

            try runtime.registerDirect("lastName") { call in
                let count = try call.elementCount(ofTableAt: 1)
                try call.push(call.element(count, ofTableAt: 1)["name"])
            }
            print(try runtime.evaluate("lastName { { name = 'a' }, { name = 'b' } }"))  // "b"
            try runtime.register("lastPrice") { (orders: LuaTable) in
                let rows = try orders.table(at: "rows")
                return try rows[rows.count, "price"]
            }
            print(try runtime.evaluate("lastPrice { rows = { { price = 3 }, { price = 4 } } }"))  // 4

            try runtime.register("fetch") { (name: String) async throws -> String in try await download(name) }
            print(try runtime.evaluate("fetch 'a.txt'"))  // "contents of a.txt"

            final class Account: LuaObject {
                let balance: Mutex<Int>
                init(_ balance: Int) { self.balance = Mutex(balance) }
            }

            var account = LuaClass<Account>("Account")
            account.function("new") { (balance: Int) in Account(balance) }
            account.property("balance", get: { account in account.balance.withLock { $0 } })
            account.method("deposit") { (account: Account, amount: Int) in account.balance.withLock { $0 += amount } }
            account.metamethod("__len") { (account: Account) in account.balance.withLock { $0 } }
            try runtime.register(account)
            let script = "local a = Account.new(5); a:deposit(3); return { a.balance, #a, tostring(a) }"
            print(try runtime.evaluate(script))  // {8, 8, "Account"}

            let count = try runtime.function(
                """
                return function(op, text)
                  local words = {}
                  for word in text:gmatch "%a+" do words[word] = (words[word] or 0) + 1 end
                  return words
                end
                """)
            let operation = LuaOperation(count, arguments: ["to be or not to be"])
            let after = BlockOperation {}
            after.addDependency(operation)
            OperationQueue(engine: runtime.engine).addOperations([operation, after], waitUntilFinished: false)

            runTask {
                let words: [String: Int] = try await operation.value()
                print(words["be"]!)  // 2
            }

            let lines = Mutex<[String]>([])
            var configuration = Runtime.Configuration()
            configuration.moduleLoader = { name in name == "greeting" ? "return { text = 'hello' }" : nil }
            configuration.prelude = "function greet(name) return require('greeting').text .. ' ' .. name end"
            configuration.output = { bytes in lines.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) } }
            let greeter = try Runtime(configuration)
            try greeter.run("print(greet 'you')")
            print(lines.withLock { $0 })  // ["hello you\n"]
            greeter.close()
        }
    }
}
