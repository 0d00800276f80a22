import Testing

/// The table "How values travel" of docs/lua-api-runtime.md.
@Suite("How values travel")
struct TravelTests {
    /// A value of the table.
    struct Row: CustomTestStringConvertible {
        let value: String
        let way: String
        let remark: String
        var testDescription: String { value }

        static let all: [Row] = {
            let page = Paths.read("\(Paths.package)/docs/lua-api-runtime.md").map { String(decoding: $0, as: UTF8.self) } ?? ""
            let lines = page.split(separator: "\n").drop { $0 != "### How values travel" }.drop { !$0.hasPrefix("| `") }.prefix {
                $0.hasPrefix("| `")
            }
            return lines.flatMap { line in
                let cells = line.split(separator: " | ").map { $0.drop { $0 == "|" || $0 == " " } }
                let values = cells[0].split(separator: "`").enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
                return values.map { Row(value: String($0), way: String(cells[1]), remark: String(cells[2].dropLast(2))) }
            }
        }()
    }

    @Test("The table has all ways")
    func ways() {
        #expect(Set(Row.all.map(\.way)) == ["by value", "by name", "by identity", "by reference", "rebuilt", "not"])
        #expect(Row.all.count > 25)
    }

    @Test("A value travels as the table says", arguments: Row.all)
    func travels(row: Row) throws {
        let script = """
            local queue, code = opscript.OperationQueue.new(), ...
            local value = (load("return " .. code)())
            local isAdded, op = pcall(queue.addOperation, queue, function() return value, rawequal(value, (load("return " .. code)())) end)
            local capture = opscript.captures(function() return value end)[1]
            if not isAdded then
              assert(capture.error:match "; (.*)" == op:match "; (.*)", op)
              return print("not: " .. op:match "; (.*)")
            end
            op:waitUntilFinished()
            assert(not op.error and not capture.error, op.error)
            local result, isOwn = op.results[1], op.results[2]
            local isPlain, isC = type(value) ~= "userdata" and type(value) ~= "table" and type(value) ~= "function", false
            if type(value) == "function" then isC = debug.getinfo(value, "S").what == "C" end
            if rawequal(result, value) and isPlain then
              print "by value"
            elseif rawequal(result, value) then
              local isNamed = isOwn and (isC or capture.kind == "module" or capture.kind == "globals")
              print(isNamed and "by name" or capture.kind == "value" and "by identity" or "by reference")
            elseif isC or rawget(getmetatable(value) or {}, "__transfer") then
              print "rebuilt"
            else
              assert(type(result) == type(value) and (type(value) ~= "table" or #result == #value))
              print "by value"
            end
            """
        let outcome = try Command.opscript("-", row.value).input(script).run()
        #expect(outcome.text == (row.way == "not" ? "not: \(row.remark)\n" : "\(row.way)\n") && outcome.status == 0, "\(outcome)")
    }
}
