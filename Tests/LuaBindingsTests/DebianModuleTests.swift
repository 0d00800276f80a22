import LuaBindings
import TestSupport
import Testing

/// Debian's Lua modules, used inside operations.
@Suite struct DebianModuleTests {
    /// The start of each script: `run` adds a body to a queue and returns its results or raises its error.
    private static let prelude = """
        function run(...)
          local operation = queue:addOperation(...)
          operation:waitUntilFinished()
          if operation.error then error(operation.error.message, 0) end
          return table.unpack(operation.results, 1, operation.results.n)
        end

        """

    /// Runs a script that uses `modules`. The test fails when a module is missing.
    private func script(_ modules: [String], _ source: String) throws {
        try withRuntime { runtime in
            for module in modules {
                let isThere = try runtime.run("return (pcall(require, ...))", arguments: [.string(module)]) == [true]
                try #require(isThere, "the Lua module \(module) is missing: run scripts/bootstrap --tests")
            }
        }
        try withRuntime { runtime in
            try runtime.run(Self.prelude)
            try runtime.run(source, name: "@modules.lua")
            #expect(try runtime.finish().stuckOperations.isEmpty)
        }
    }

    @Test(
        "A module that a body uses is sent by name",
        arguments: [
            ("cjson", "encode { 1, { a = 'x' } } == '[1,{\"a\":\"x\"}]' and decode('[3]')[1] == 3", "encode, decode"),
            ("cjson.safe", "decode('[') == nil and encode { 1 } == '[1]'", "encode, decode"),
            ("lpeg", "match(P 'a' ^ 1, 'aaab') == 4 and m.R '09':match '1' == 2", "match, P"),
            ("re", "match('hello world', '{%a+}') == 'hello'", "match"),
            ("lfs", "attributes('/', 'mode') == 'directory' and m.currentdir() ~= nil", "attributes"),
            ("socket", "gettime() > 0 and type(tcp():getfd()) == 'number'", "gettime, tcp"),
            ("socket.url", "parse('http://a.b/c').host == 'a.b'", "parse"),
            ("mime", "b64 'abc' == 'YWJj'", "b64"),
            ("ltn12", "m.source.string 'x'() == 'x'", "pump"),
            ("pl.tablex", "deepcompare({ 1, { 2 } }, { 1, { 2 } })", "deepcompare"),
            ("pl.pretty", "write({ 1 }, '') == '{1}'", "write"),
            ("pl.stringx", "split('a b c')[2] == 'b' and m.strip ' x ' == 'x'", "split"),
        ])
    func byName(module: String, expression: String, fields: String) throws {
        let values = fields.split(separator: ",").map { "m.\($0.drop { $0 == " " })" }.joined(separator: ", ")
        try script(
            [module],
            """
            local m = require '\(module)'
            local \(fields) = \(values)
            local function check(op, argument)
              assert(m == require '\(module)' and argument == m)
              for _, pair in ipairs { \(fields.split(separator: ",").map { "{ \($0), m.\($0.drop { $0 == " " }) }" }.joined(separator: ", ")) } do
                assert(pair[1] == pair[2])
              end
              return \(expression)
            end
            assert(run(check, m) == true)
            """)
    }

    @Test func theNullOfCjsonIsTheSameEverywhere() throws {
        try script(
            ["cjson"],
            """
            local cjson = require 'cjson'
            local null, nested = cjson.null, cjson.decode '{ "a": null, "b": [1, null] }'
            local function check(op, argument) return null == cjson.null and argument == null and nested.a == null, nested, null end
            local same, back, value = run(check, null)
            assert(same and back.a == null and back.b[2] == null and value == null)
            assert(run(function() return cjson.decode '[null]' end)[1] == null)
            assert(cjson.encode(run(function(op, t) return { t, null } end, nested)[1].b) == '[1,null]')
            assert(run(function() return { [null] = 1 } end)[null] == 1)
            """)
    }

    @Test func aLightUserdataThatNoModuleHoldsIsAnError() throws {
        try script(
            ["lpeg"],
            """
            local address = debug.upvalueid(function() return run end, 1)
            local ok, message = pcall(queue.addOperation, queue, function() return address end)
            assert(message == "cannot send upvalue 'address' (a light userdata) of function <modules.lua:2>; \\z
            it is an address, which means nothing elsewhere", message)
            """)
    }

    @Test func aPatternIsAnErrorThatSaysWhatToDo() throws {
        try script(
            ["lpeg"],
            """
            local lpeg = require 'lpeg'
            local digits = { lpeg.R '09' ^ 1 }
            local ok, message = pcall(queue.addOperation, queue, function(op, s) return digits[1]:match(s) end)
            assert(message == "cannot send upvalue 'digits'[1] (a userdata) of function <modules.lua:3>; \\z
            create it inside the body, or give its metatable a __transfer", message)
            local ok, message = pcall(run, function() return lpeg.R '09' end)
            assert(message == "cannot send result 1 (a userdata); create it inside the body, or give its metatable a __transfer", message)
            """)
    }

    @Test func aPatternWithTransferIsMadeAgain() throws {
        try script(
            ["re"],
            """
            local re, lpeg = require 're', require 'lpeg'
            local sources = setmetatable({}, { __mode = 'k' })
            local function compile(source)
              local pattern = re.compile(source)
              sources[pattern] = source
              return pattern
            end
            getmetatable(lpeg.P(1)).__transfer = function(pattern) return re.compile, sources[pattern] end
            local word = compile '{%a+}'
            assert(run(function(op, s) return word:match(s) end, 'hello world') == 'hello')
            """)
    }

    @Test func iteratorsAndSocketsAreErrors() throws {
        try script(
            ["lfs", "socket"],
            """
            local lfs, socket = require 'lfs', require 'socket'
            local list, directory <close> = lfs.dir '/'
            local connection = socket.tcp()
            for name, value in pairs { directory = directory, connection = connection } do
              local ok, message = pcall(run, function() return value end)
              assert(message:find("cannot send upvalue 'value' (a userdata)", 1, true), message)
            end
            local names = run(function() local names = {} for name in lfs.dir '/' do names[name] = true end return names end)
            assert(names.usr and names['..'])
            """)
    }

    @Test func operationsTalkOverASocket() throws {
        try script(
            ["socket"],
            """
            local socket = require 'socket'
            local server = assert(socket.bind('127.0.0.1', 0))
            local address, port = server:getsockname()
            local client = queue:addOperation(function()
              local connection = assert(socket.connect(address, port))
              assert(connection:send 'hello\\n')
              local answer = connection:receive '*l'
              connection:close()
              return answer
            end)
            local connection = server:accept()
            connection:send(connection:receive '*l':upper() .. '\\n')
            client:waitUntilFinished()
            connection:close()
            server:close()
            assert(client.result == 'HELLO')
            """)
    }

    @Test func instancesOfPenlightKeepTheirClass() throws {
        try script(
            ["pl.List"],
            """
            local List, Set, Map, OrderedMap, Date =
              require 'pl.List', require 'pl.Set', require 'pl.Map', require 'pl.OrderedMap', require 'pl.Date'
            local list, set, date = List { 1, List { 2 } }, Set { 'a', 'b' }, Date { year = 2020, month = 1, day = 2 }
            local function check(op, map)
              assert(getmetatable(list) == List and list:is_a(List) and getmetatable(list[2]) == List and list:append(5):len() == 3)
              assert(getmetatable(set) == Set and tostring(set * Set { 'a' }) == '[a]')
              assert(getmetatable(date) == Date and date:year() == 2020)
              assert(getmetatable(map) == OrderedMap and map:keys() == List { 'x', 'y' })
              return List { 5, 6 }:map(function(x) return x * 2 end), Set { 1 }, Map { a = 1 }, map
            end
            local l, s, m, o = run(check, OrderedMap { { x = 1 }, { y = 2 } })
            assert(l == List { 10, 12 } and getmetatable(s) == Set and m:get 'a' == 1 and o:keys() == List { 'x', 'y' })
            assert(#list == 2)
            """)
    }

    @Test func classesOfTheScriptGoByValueAndStayOne() throws {
        try script(
            ["pl.class"],
            """
            local class = require 'pl.class'
            local Animal = class()
            function Animal:_init(name) self.name = name end
            function Animal:speak() return self.name .. ' speaks' end
            local Dog = class(Animal)
            function Dog:_init(name) self:super(name); self.kind = 'dog' end
            function Dog:bark() return self.name .. ' barks' end
            local rex, max = Dog 'Rex', Dog 'Max'
            local function check(op)
              assert(getmetatable(rex) == Dog and getmetatable(max) == Dog and Dog:class_of(rex) and rex:is_a(Animal))
              return Dog 'Fido', rex:speak(), max:bark()
            end
            local fido, spoken, barked = run(check)
            assert(fido:bark() == 'Fido barks' and spoken == 'Rex speaks' and barked == 'Max barks')
            """)
    }

    @Test func globalsThatAMetatableMakesComeAlong() throws {
        try script(
            ["pl"],
            """
            require 'pl'
            assert(rawget(_G, 'tablex') == nil)
            assert(run(function() return tablex.deepcompare({ 1 }, { 1 }), undefined end) == true)
            """)
        try script(
            ["pl.strict"],
            """
            require 'pl.strict'
            assert(not pcall(function() return undeclared end))
            assert(run(function() return undeclared == nil end) == true)
            declared = 5
            assert(run(function() return declared end) == 5)
            """)
    }

    @Test func aModuleOfPackagePreloadGoesByName() throws {
        try script(
            ["cjson"],
            """
            local cjson = require 'cjson'
            package.preload['cjson.mine'] = function() return { null = cjson.null, twice = function(x) return cjson.encode { x, x } end } end
            local mine = require 'cjson.mine'
            local text, isNull, isOne = run(function() return mine.twice(1), mine.null == cjson.null, package.loaded['cjson.mine'] == mine end)
            assert(text == '[1,1]' and isNull and isOne)
            """)
    }

    @Test func thePathsOfTheSenderAreUsed() throws {
        let modules = try ModuleDirectory([
            "wrapper": "local cjson = require 'cjson' return { text = function(t) return cjson.encode(t) end }"
        ])
        try script(
            ["cjson"],
            """
            run(function() end)
            \(modules.prelude)
            local file = assert(package.searchpath('cjson', package.cpath))
            package.cpath = file:gsub('cjson%.so$', '?.so')
            local wrapper = require 'wrapper'
            assert(run(function() return wrapper.text { 1 }, package.cpath end) == '[1]')
            package.path, package.cpath = '', ''
            local ok, message = pcall(run, function() return require 'lfs' end)
            assert(message:find "module 'lfs' not found")
            """)
    }
}
