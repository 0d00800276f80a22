import Glibc
import TestSupport
import Testing

@testable import LuaBindings

/// `Tests/Hostile/names.txt` lists everything that a script in the sandbox for untrusted scripts reaches. A function that is not in the list is a
/// function that no review has allowed.
@Suite struct SandboxNameTests {
    private static let path = #filePath.replacing("LuaBindingsTests/SandboxNameTests.swift", with: "Hostile/names.txt")

    @Test(arguments: [false, true])
    func theListHasAllThatAScriptReaches(inProcesses: Bool) throws {
        var configuration = Runtime.Configuration()
        configuration.ignoresEnvironment = true
        if inProcesses { configuration.isolation = .process }
        configuration.workerCount = 1
        configuration.sandbox = .untrusted
        configuration.limits = .untrusted
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let arguments: [LuaValue] = [.string(Reachable.walk), .string(Reachable.members.joined(separator: " "))]
        let names = "local names = {} for name in pairs(found) do names[#names + 1] = name end"
        let asScript = try runtime.run("local found = load(...)(select(2, ...)) \(names) return names", arguments: arguments)
        let inBodies = try runtime.run(
            """
            local source, members = ...
            local queue = opscript.OperationQueue.new()
            local body = queue:addOperation(function(op)
                local found = load(source)(members, op) \(names)
                return names
            end)
            local afterwards = opscript.channel { capacity = 1 }
            local callback = queue:addOperation(function(op)
                opscript.after(0, function()
                    local found = load(source)(members) \(names)
                    afterwards:send(names)
                end)
                return afterwards:receive()
            end)
            return body:get(), callback:get()
            """, arguments: arguments)
        var reached: Set<String> = []
        for list in asScript + inBodies { reached.formUnion(try #require(list.array).compactMap(\.text)) }
        // Worker processes share no memory.
        let allowed = Set(try Self.list().filter { !inProcesses || !$0.hasPrefix("<frozen>") })
        let more = reached.subtracting(allowed).sorted(), missing = allowed.subtracting(reached).sorted()
        #expect(more.isEmpty, "not in \(Self.path): \(more.joined(separator: "\n"))")
        #expect(missing.isEmpty, "only in \(Self.path): \(missing.joined(separator: "\n"))")
    }

    @Test func eachNameThatLooksAtFilesIsAbsentOrRaises() throws {
        var configuration = Runtime.Configuration()
        configuration.ignoresEnvironment = true
        configuration.sandbox = .untrusted
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        try runtime.run(
            """
            local function refused(f, ...)
                local ok, message = pcall(f, ...)
                assert(not ok and message:find "allow", message)
            end
            local function look()
                assert(not io and not dofile and not loadfile and not package.searchpath and not package.loadlib and #package.searchers == 1)
                package.path, package.cpath = "/proc/self/?", "/proc/self/?"
                assert(not pcall(require, "exe"))
                refused(function() opscript.Operation.new(print):addCondition("fileExists", "/") end)
                for _, option in ipairs { "inputs", "outputs" } do
                    refused(opscript.Operation.new, { main = print, [option] = { "/etc/passwd" } })
                end
                refused(opscript.Operation.new, { main = print, depfile = "/etc/passwd" })
            end
            look()
            opscript.OperationQueue.new():addOperation(look):get()
            """)
    }

    private static func list() throws -> [String] {
        guard let file = unsafe fopen(path, "re") else { throw LuaError(message: "there is no \(path)") }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = unsafe getc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
