// A Swift program that runs background work for a script. It gives scripts a function, runs a script from a string, and awaits the result
// of one of the script's operations.
import LuaBindings
import OpEngine

@main
struct Host {
    static let script = """
        local queue = opscript.OperationQueue.new "prices"
        local totals = {}
        for i, basket in ipairs(baskets) do
          totals[i] = queue:addOperation(function(op, basket)
            local total = 0
            for _, item in ipairs(basket) do total = total + price(item) end   -- a Swift function, called on a worker
            return total
          end, basket)
        end
        local sum = opscript.Operation.new(function()
          local sum = 0
          for _, total in ipairs(totals) do sum = sum + total.result end
          return sum
        end)
        for _, total in ipairs(totals) do sum:addDependency(total) end
        return queue:addOperation(sum)
        """

    static func main() throws {
        let runtime = try Runtime()
        defer { runtime.close() }

        let prices = ["apple": 3, "pear": 4, "plum": 1]
        try runtime.register("price") { (item: String) throws -> Int in
            guard let price = prices[item] else { throw UnknownItem() }
            return price
        }
        try runtime.setGlobal("baskets", to: .array([.array(["apple", "pear"]), .array(["plum", "plum", "apple"])]))

        guard let sum = try runtime.run(script, name: "=baskets").first?.operation else { return print("no operation came back") }
        print("the sum is", try runtime.results(of: sum)[0].integer ?? 0)

        // An error that a Swift function throws is raised in the script. An error that an operation raises is thrown here.
        let failing = try runtime.run("return opscript.OperationQueue.new():addOperation(function() return price 'melon' end)")[0]
            .operation!
        do { _ = try runtime.results(of: failing) } catch { print("as expected:", error) }
    }
}

struct UnknownItem: Error, CustomStringConvertible {
    var description: String { "there is no such item" }
}
