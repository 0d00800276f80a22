import Glibc
import OpEngine
import Testing

@testable import LuaBindings

/// `editor/opscript.d.lua`, which editors read, declares exactly what the module has.
@Suite struct AnnotationTests {
    /// The declarations in the file.
    private struct Declarations {
        /// The fields and functions of each class. A function is written as `.name` or `:name`.
        var fields: [String: Set<String>] = [:]
        var functions: [String: Set<String>] = [:]
        var aliases: [String: Set<String>] = [:]
        /// Functions whose `@param` lines do not name their parameters in order.
        var wrongParameters: [String] = []
    }

    private static func read() throws -> String {
        let path = "/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/") + "/editor/opscript.d.lua"
        guard let file = unsafe fopen(path, "r") else { throw LuaError(message: "there is no \(path)") }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = unsafe getc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func declarations() throws -> Declarations {
        var all = Declarations()
        var current: String?
        var classOfVariable: [String: String] = [:]
        var parameters: [String] = []
        for line in try read().split(separator: "\n", omittingEmptySubsequences: false) {
            let words = line.split(separator: " ").map(String.init)
            guard let first = words.first else {
                current = nil
                continue
            }
            switch first {
            case "---@class":
                let name = words[1].hasSuffix(":") ? String(words[1].dropLast()) : words[1]
                current = name
                all.fields[name] = []
                all.functions[name] = []
            case "---@field":
                guard let current, !words[1].hasPrefix("[") else { break }
                all.fields[current]?.insert(words[1].filter { $0 != "?" })
            case "---@alias": all.aliases[words[1]] = Set(words[2].split(separator: "|").map { $0.filter { $0 != "\"" } })
            case "---@param": parameters.append(words[1].filter { $0 != "?" })
            case "local", "opscript":
                let variable = first == "local" ? words[1] : first
                if let current { classOfVariable[variable] = current }
            case "function":
                let signature = line.dropFirst("function ".count).dropLast(" end".count)
                let name = signature.prefix { $0 != "(" }
                let declared = signature.drop { $0 != "(" }.filter { !"() ".contains($0) }.split(separator: ",").map(String.init)
                let variable = String(name.prefix { $0 != "." && $0 != ":" })
                let owner = try #require(classOfVariable[variable], "\(name) belongs to no class")
                all.functions[owner]?.insert(String(name.dropFirst(variable.count)))
                if parameters.filter({ $0 != "self" && $0 != "class" || declared.contains($0) }) != declared {
                    all.wrongParameters.append(String(name))
                }
                parameters = []
            default: break
            }
        }
        return all
    }

    private static func methods(_ names: [String], besides functions: Set<String> = ["new"]) -> Set<String> {
        Set(names.map { functions.contains($0) ? ".\($0)" : ":\($0)" })
    }

    @Test func everyClassHasWhatTheModuleHas() throws {
        let file = try Self.declarations()
        #expect(file.wrongParameters.isEmpty)
        let classes = ["Operation", "BlockOperation", "InvocationOperation", "GroupOperation", "OperationQueue"]
        let expected: [(name: String, fields: [String], functions: Set<String>)] = [
            (
                "opscript", classes + ["fs", "json"],
                Set((ScriptModule.Function.names + ScriptedFunctions.Function.names + ["freeze", "thaw", "isFrozen"]).map { ".\($0)" })
            ),
            (
                "opscript.Operation", OperationClass.Property.names + OperationClass.ClassProperty.names,
                Self.methods(OperationClass.Function.names)
            ),
            ("opscript.OperationOptions", OperationClass.Option.allCases.map(\.rawValue), []),
            ("opscript.BlockOperation", [], Self.methods(BlockOperationClass.Function.names)),
            ("opscript.InvocationOperation", [], Self.methods(InvocationOperationClass.Function.names)),
            ("opscript.GroupOperation", GroupOperationClass.Property.names, Self.methods(GroupOperationClass.Function.names)),
            ("opscript.GroupOperationOptions", GroupOperationClass.Option.allCases.map(\.rawValue), []),
            (
                "opscript.OperationQueue", OperationQueueClass.Property.names + OperationQueueClass.ClassProperty.names,
                Self.methods(OperationQueueClass.Function.names + ScriptedFunctions.Method.names)
            ),
            ("opscript.OperationQueueOptions", OperationQueueClass.Option.allCases.map(\.rawValue), []),
            ("opscript.Error", ErrorClass.Property.names, []),
            ("opscript.Observation", ObservationClass.Property.names, Self.methods(ObservationClass.Function.names)),
            ("opscript.ChannelOptions", ChannelClass.Option.allCases.map(\.rawValue), []),
            ("opscript.Channel", ChannelClass.Property.names, Self.methods(ChannelClass.Function.names.filter { !$0.hasPrefix("__") })),
            ("opscript.Timer", [], Self.methods(TimerClass.Function.names)),
            ("opscript.Process", ProcessClass.Property.names, Self.methods(ProcessClass.Function.names)),
            ("opscript.Stream", [], Self.methods(StreamClass.Function.names)),
            ("opscript.ProcessOptions", ProcessClass.Option.allCases.map(\.rawValue), []),
            ("opscript.FetchOptions", Fetching.Option.allCases.map(\.rawValue) + ["ok"], []),
            (
                "opscript.fs", ["path"],
                [
                    ".copy", ".exists", ".glob", ".mkdir", ".move", ".read", ".readlink", ".remove", ".stat", ".symlink", ".tempdir",
                    ".tempfile",
                    ".walk", ".write",
                ]
            ),
            ("opscript.json", ["null", "emptyArray"], [".array", ".decode", ".encode"]),
            ("opscript.fs.path", [], [".absolute", ".join", ".relative", ".split"]),
            (
                "opscript.FileStatus",
                [
                    "type", "size", "mode", "modified", "accessed", "user", "group", "device", "inode", "links",
                ], []
            ),
        ]
        for (name, fields, functions) in expected {
            #expect(file.fields[name] == Set(fields), "\(name)")
            #expect(file.functions[name] == functions, "\(name)")
        }
        let made: Set = [
            "opscript.MapOptions", "opscript.Progress", "opscript.Change", "opscript.Blockage", "opscript.Capture",
            "opscript.ProcessResult", "opscript.RunOptions", "opscript.ProgramError", "opscript.RetryOptions", "opscript.RateLimit",
            "opscript.Response", "opscript.FetchError",
            "opscript.WalkOptions",
        ]
        #expect(Set(file.fields.keys) == made.union(expected.map(\.name)))
    }

    @Test func theModuleHasTheClassesAndFunctions() throws {
        let file = try Self.declarations()
        try withRuntime { runtime in
            let names = try runtime.run(
                """
                local names = {}
                for name, value in pairs(opscript) do
                  if type(value) == 'table' then
                    for field, member in pairs(value) do
                      if type(member) == 'function' then names[#names + 1] = 'opscript.' .. name .. '.' .. field end
                    end
                  else
                    names[#names + 1] = 'opscript.' .. name
                  end
                end
                return table.unpack(names)
                """)
            let declared = file.functions.filter { $0.key == "opscript" || file.fields["opscript"]!.contains(String($0.key.dropFirst(9))) }
                .flatMap { owner, functions in functions.map { "\(owner).\($0.dropFirst())" } }
            #expect(Set(names.compactMap(\.text)) == Set(declared))
        }
    }

    @Test func theStringsAreThoseThatAreTaken() throws {
        let aliases = try Self.declarations().aliases
        let expected: [String: [String]] = [
            "opscript.QueuePriority": Operation.QueuePriority.allCases.map(\.scriptName),
            "opscript.QualityOfService": QualityOfService.allCases.map(\.scriptName),
            "opscript.DependencyPolicy": ["finished", "succeeded"],
            "opscript.ErrorKind": OperationFailure.Kind.allCases.map(\.rawValue),
            "opscript.ObservationOption": ["old", "new", "initial", "prior"],
            "opscript.Condition": [
                "noFailedDependencies", "noCancelledDependencies", "fileExists", "fun(op:opscript.Operation):boolean,string?",
            ],
        ]
        #expect(aliases == expected.mapValues { Set($0) })
    }

    /// The fields of the tables that the module makes are exactly the declared fields.
    @Test func theTablesThatAreMadeHaveTheFields() throws {
        let file = try Self.declarations()
        try withRuntime { runtime in
            let made = try runtime.run(
                """
                local all = {}
                local function see(class, t)
                  all[class] = all[class] or {}
                  for field in pairs(t) do all[class][field] = true end
                end
                see('Progress', queue.progress)
                local observed = Operation.new()
                observed:observe('name', { 'old', 'new', 'prior' }, function(_, change) see('Change', change) end)
                observed.name = 'a'
                observed.name = 'b'
                opscript.sleep(0)
                see('ProcessResult', opscript.sh 'true':wait())
                local killed = opscript.sh 'sleep 100'
                killed:kill()
                local late = opscript.process { 'sleep', 100, timeout = 0.001, onExit = function(result) see('ProcessResult', result) told = true end }
                while not told do opscript.sleep(0.001) end
                see('ProcessResult', killed:wait())
                local upvalue, culprit = {}, { coroutine.create(print) }
                for _, record in ipairs(opscript.captures(function() return upvalue, culprit, see end)) do see('Capture', record) end
                local function blockage(operation) see('Blockage', (select(2, operation:why()))) end
                local unready = Operation.new()
                unready.isReady = false
                blockage(unready)
                local group = opscript.GroupOperation.new { operations = { function() end } }
                blockage(group.operations[1])
                local held = OperationQueue.new { isSuspended = true }
                local first, second = Operation.new(), Operation.new { dependencies = { observed } }
                second.isReady = false
                blockage(second)
                held:addOperation(first)
                blockage(first)
                local barrier = held:addBarrierBlock(function() end)
                local behind = held:addOperation(function() end)
                blockage(barrier)
                blockage(behind)
                local none = OperationQueue.new { maxConcurrentOperationCount = 0 }
                blockage(none:addOperation(function() end))
                local one = OperationQueue.new { maxConcurrentOperationCount = 1 }
                local running = one:addOperation(function(op) op.begun = true while not op.isCancelled do opscript.sleep(100) end end)
                while not running.begun do opscript.sleep(0.001) end
                blockage(one:addOperation(function() end))
                local limited = OperationQueue.new { rateLimit = { count = 1, seconds = 1e6 } }
                limited:addOperation(function() end):waitUntilFinished()
                local late, tried = limited:addOperation(function() end), Operation.new { retry = { attempts = 2, delay = 1e6 }, main = function() error 'no' end }
                local key, need = Operation.new { exclusive = 'key' }, Operation.new { needs = { gpu = 1 } }
                opscript.resources { gpu = 1 }
                local keeper = queue:addOperation(Operation.new { exclusive = 'key', needs = { gpu = 1 }, main = function(op)
                    op.begun = true
                    while not op.isCancelled do opscript.sleep(100) end
                end })
                while not keeper.begun do opscript.sleep(0.001) end
                queue:addOperations { key, need, tried }
                for op, field in pairs { [late] = 'secondsToNextStart', [tried] = 'nextAttempt', [key] = 'exclusive', [need] = 'resource' } do
                    repeat local _, fields = op:why() until fields and fields[field]
                    blockage(op)
                    op:cancel()
                end
                local channel = opscript.channel()
                local reader = queue:addOperation(function() return channel:receive() end)
                repeat local _, fields = reader:why() until fields and fields.waits
                blockage(reader)
                channel:close()
                keeper:cancel()
                running:cancel()
                held:cancelAllOperations()
                none:cancelAllOperations()
                held.isSuspended, none.maxConcurrentOperationCount = false, 1
                local list = {}
                for class, fields in pairs(all) do
                  for field in pairs(fields) do list[#list + 1] = class .. '.' .. field end
                end
                return table.unpack(list)
                """)
            let classes = ["Progress", "Change", "ProcessResult", "Capture", "Blockage"]
            let declared = classes.flatMap { name in file.fields["opscript.\(name)"]!.map { "\(name).\($0)" } }
            // A script cannot make an operation that is in a cycle, so no table has this field.
            #expect(Set(made.compactMap(\.text)).union(["Blockage.cycle"]) == Set(declared))
        }
    }
}
