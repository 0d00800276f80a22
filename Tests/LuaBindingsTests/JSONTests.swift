import LuaBindings
import TestSupport
import Testing

/// `opscript.json`.
@Suite struct JSONTests {
    private static let prelude = #"""
        local json = opscript.json
        local function same(found, expected) if found ~= expected then error(tostring(found), 2) end end
        local function raises(expected, f, ...)
          local ok, message = pcall(f, ...)
          if ok or not message:find(expected, 1, true) then error(ok and "no error" or message, 2) end
        end

        """#

    @Test("Values are decoded: integers stay integers, null and empty arrays have values of their own")
    func decoding() throws {
        try script(
            Self.prelude + #"""
                local d = json.decode ' {"a": [1, -2, 3.0, 1e2, -0, 0.5], "b": {"": true, "c": false}, "n": null, "e": [], "o": {}, "a": "last"} '
                assert(d.a == "last" and d.b[""] == true and d.b.c == false and d.n == json.null and next(d.e) == nil and next(d.o) == nil)
                local n = json.decode "[1, -2, 3.0, 1e2, -0, 0.5, 9223372036854775807, -9223372036854775808, 9223372036854775808, 1E+2, 1e-2]"
                local kinds = {}
                for i, number in ipairs(n) do kinds[i] = ("%s %s"):format(math.type(number):sub(1, 1), number) end
                same(table.concat(kinds, ", "), "i 1, i -2, f 3.0, f 100.0, f -0.0, f 0.5, i 9223372036854775807, i -9223372036854775808, "
                  .. "f 9.2233720368548e+18, f 100.0, f 0.01")
                assert(json.decode "0.1" == 0.1 and json.decode "123456789.123456789" == 123456789.123456789 and json.decode "5e-324" == 5e-324)
                assert(json.decode("0." .. ("0"):rep(400) .. "1e401") == 1 and json.decode("1" .. ("0"):rep(300)) == 1e300 and json.decode "1.7976931348623157e308" > 1e308)
                same(json.decode [["\"\\\/\b\f\n\r\t\u0041\u00e4\u20ac\ud83d\ude00\u0000."]], "\"\\/\b\f\n\r\tAä€😀\0.")
                same(json.decode('"' .. ("plain text ä €"):rep(1000) .. '"'), ("plain text ä €"):rep(1000))
                same(json.decode "\t\r\n null ", json.null)
                same(json.decode '"\127"', "\127")
                local deep = json.decode(("["):rep(1000) .. ("]"):rep(1000))
                for _ = 1, 999 do deep = deep[1] end
                assert(#deep == 0)
                """#)
    }

    @Test("What is no JSON is an error with its line and column")
    func refusedTexts() throws {
        try script(
            Self.prelude + #"""
                for text, expected in pairs {
                  [""] = "line 1, column 1: a value expected, got the end", ["  "] = "column 3: a value expected, got the end",
                  ["[1,\n 2,\n ]"] = "line 3, column 2: a value expected, got ']'", ["[1 2]"] = "column 4: ',' or ']' expected, got '2'",
                  ["[1"] = "column 3: ',' or ']' expected, got the end", ['{"a" 1}'] = "column 6: ':' expected, got '1'",
                  ['{"a":1,}'] = "column 8: a key in quotes expected, got '}'", ["{a:1}"] = "column 2: a key in quotes expected, got 'a'",
                  ['{"a":1'] = "column 7: ',' or '}' expected, got the end", ["1 x"] = "column 3: the end expected, got 'x'",
                  ["nul"] = "column 1: a value expected, got 'n'", ["NaN"] = "a value expected, got 'N'", ["-Infinity"] = "column 2: a digit expected, got 'I'",
                  ["01"] = "column 2: a number must not begin with 0", ["-01"] = "column 3: a number must not begin with 0", ["+1"] = "a value expected, got '+'",
                  [".5"] = "a value expected, got '.'", ["1."] = "column 3: a digit expected, got the end", ["1e"] = "a digit expected", ["1e+"] = "a digit expected",
                  ["0x10"] = "column 2: the end expected, got 'x'", ["[1e999]"] = "column 2: a number that is too large",
                  ['"a'] = "column 3: '\"' expected, got the end", ['"\\x"'] = "column 3: an escape character expected, got 'x'",
                  ['"\\'] = "an escape character expected, got the end", ['"\\u12g4"'] = "column 6: a hexadecimal digit expected, got 'g'",
                  ['"\\ud800"'] = "column 2: half of a surrogate pair", ['"\\ud800\\u0041"'] = "column 2: half of a surrogate pair",
                  ['"a\\udc00"'] = "column 3: half of a surrogate pair", ['"\\ud800\\ud800"'] = "half of a surrogate pair",
                  ['"a\nb"'] = "column 3: an escape for a control character expected, got the byte 10", ['"\0"'] = "expected, got the byte 0",
                  ['"\xff"'] = "column 2: invalid UTF-8", ['"\xc0\x80"'] = "invalid UTF-8", ['"\xed\xa0\x80"'] = "invalid UTF-8",
                  ['"\xf4\x90\x80\x80"'] = "invalid UTF-8", ['"\xe2\x82"'] = "invalid UTF-8", ["\xef\xbb\xbf1"] = "a value expected, got the byte 239",
                  ["'a'"] = "a value expected, got '''", ["1\0"] = "column 2: the end expected, got the byte 0", ["//"] = "a value expected, got '/'",
                } do
                  local ok, message = pcall(json.decode, text)
                  if ok or not message:find("invalid JSON in line", 1, true) or not message:find(expected, 1, true) then
                    error(("%q: %s"):format(text, message))
                  end
                end
                raises("line 1, column 1001: more than 1000 values inside each other", json.decode, ("["):rep(1001) .. ("]"):rep(1001))
                raises("more than 1000", json.decode, ('{"a":'):rep(100000))
                raises("bad argument #1 to 'opscript.json.decode' (string expected, got nil)", json.decode, nil)
                raises("bad argument #2 to 'opscript.json.decode' (unknown option 'freeze')", json.decode, "1", { freeze = true })
                raises("bad argument #2 to 'opscript.json.decode' (frozen must be true or false, got number)", json.decode, "1", { frozen = 1 })
                raises("bad argument #2 to 'opscript.json.decode' (table expected, got boolean)", json.decode, "1", true)
                """#)
    }

    @Test("Values are encoded, in one line or indented with sorted keys")
    func encoding() throws {
        try script(
            Self.prelude + #"""
                same(json.encode { 1, 2.5, "a", true, json.null, { x = {} } }, '[1,2.5,"a",true,null,{"x":{}}]')
                same(json.encode { json.array(), json.array {}, json.emptyArray, {}, json.array { 1 } }, "[[],[],[],{},[1]]")
                same(json.encode(json.decode '{"e":[]}'), '{"e":[]}')
                same(json.encode(nil), "null")
                same(json.encode { 1.0, -0.0, 0.1, 1e15, 1e300, 123456.789, -1e-7, math.mininteger, math.maxinteger, 0.1 + 0.2, 99999999999999.5 },
                  "[1.0,-0.0,0.1,1e+15,1e+300,123456.789,-1e-07,-9223372036854775808,9223372036854775807,0.30000000000000004,99999999999999.5]")
                same(json.encode '\0\1\31"\\/\b\f\n\r\t\127ä€😀', [["\u0000\u0001\u001f\"\\/\b\f\n\r\t]] .. '\127ä€😀"')
                same(json.encode({ b = { 1, {} }, a = json.array(), [""] = 1, ["a\0"] = {} }, { pretty = true }),
                  '{\n  "": 1,\n  "a": [],\n  "a\\u0000": {},\n  "b": [\n    1,\n    {}\n  ]\n}')
                same(json.encode(opscript.freeze { a = { 1, json.null, json.emptyArray } }), '{"a":[1,null,[]]}')
                local thawed = opscript.thaw(json.decode('{"a":[],"b":[]}', { frozen = true }))
                table.insert(thawed.a, 1)
                same(json.encode { thawed.a, thawed.b, json.emptyArray }, "[[1],[],[]]")
                same(json.encode { 999999999999999.0, 999999999999998.0, 99999999999999.0 }, "[999999999999999.0,999999999999998.0,99999999999999.0]")
                local changing = { a = 1, b = 2 }
                setmetatable({}, { __gc = function() for i = 1, 100 do changing["new" .. i] = i end end })
                collectgarbage "generational"
                for i = 1, 2000 do changing["k" .. i] = i end
                assert(pcall(json.encode, changing, { pretty = true }) ~= nil)
                collectgarbage "incremental"
                local deep = {}
                for _ = 1, 999 do deep = { deep } end
                same(#json.encode(deep), 2000)
                """#)
    }

    @Test("A value that JSON does not have is an error that names it")
    func refusedValues() throws {
        try script(
            Self.prelude + #"""
                local cycle = {}
                cycle[1] = cycle
                raises("cannot encode argument 1.a[2] (a function)", json.encode, { a = { 1, print } })
                raises("cannot encode argument 1[\"a b\"] (a thread)", json.encode, { ["a b"] = coroutine.create(print) })
                raises("cannot encode argument 1 (a userdata)", json.encode, io.stdout)
                raises("cannot encode argument 1[1] (not a number)", json.encode, { 0 / 0 })
                raises("cannot encode argument 1.x (an infinite number)", json.encode, { x = -1 / 0 })
                raises("cannot encode argument 1 (an array with holes)", json.encode, { 1, nil, nil, 4 })
                raises("cannot encode argument 1.x (an array with holes)", json.encode, { x = { [1000] = 1 } })
                raises("cannot encode argument 1 (an array with holes)", json.encode, { [0] = 1 })
                raises("cannot encode argument 1 (a table with elements and other fields)", json.encode, { 1, a = 1 })
                raises("cannot encode argument 1 (a table with elements and other fields)", json.encode, json.array { a = 1 })
                raises("cannot encode argument 1 (a table with a key that is a boolean)", json.encode, { [true] = 1 })
                raises("cannot encode argument 1 (a table with a key that is a boolean)", json.encode, { [true] = 1 }, { pretty = true })
                raises("cannot encode argument 1.a (invalid UTF-8 in byte 2 of a string)", json.encode, { a = "a\xff" })
                raises("(more than 1000 values inside each other; perhaps a table contains itself)", json.encode, cycle)
                raises("bad argument #1 to 'opscript.json.encode' (value expected)", json.encode)
                raises("bad argument #2 to 'opscript.json.encode' (unknown option 'indent')", json.encode, 1, { indent = 2 })
                raises("bad argument #1 to 'opscript.json.array' (table expected, got number)", json.array, 1)
                """#)
    }

    @Test("A random value is the same after encoding and decoding")
    func roundTrip() throws {
        let seed = UInt64.random(in: 0...UInt64(Int64.max))
        try withRuntime { runtime in
            try runtime.run(
                Self.prelude + #"""
                    math.randomseed(...)
                    local function text()
                      local parts = {}
                      for i = 1, math.random(0, 12) do
                        local code = math.random(0, 3) == 0 and math.random(0x80, 0x10ffff) or math.random(0, 0x7f)
                        parts[i] = utf8.char(code >= 0xd800 and code < 0xe000 and 0xd7ff or code)
                      end
                      return table.concat(parts)
                    end
                    local makers
                    local function value(depth) return makers[math.random(1, depth > 5 and 5 or 7)](depth) end
                    makers = {
                      function() return math.random(0) >> math.random(0, 63) end,
                      function()
                        local number = string.unpack("d", string.pack("j", math.random(0)))
                        return number - number == 0 and number or math.random() * 10 ^ math.random(-10, 17)
                      end,
                      text, function() return math.random(0, 1) == 0 end, function() return json.null end,
                      function(depth)
                        local list = json.array()
                        for i = 1, math.random(0, 5) do list[i] = value(depth + 1) end
                        return list
                      end,
                      function(depth)
                        local fields = {}
                        for _ = 1, math.random(0, 5) do fields[text()] = value(depth + 1) end
                        return fields
                      end,
                    }
                    local function isSame(a, b)
                      if type(a) ~= "table" or type(b) ~= "table" then return a == b and math.type(a) == math.type(b) end
                      for key, item in pairs(a) do if not isSame(item, b[key]) then return false end end
                      for key in pairs(b) do if a[key] == nil then return false end end
                      return next(a) ~= nil or getmetatable(a) == getmetatable(b)
                    end
                    for round = 1, 2000 do
                      local original = value(0)
                      local encoded = json.encode(original)
                      assert(isSame(json.decode(encoded), original), encoded)
                      assert(isSame(json.decode(json.encode(original, { pretty = true })), original), encoded)
                      -- A text that was damaged is refused, or means something.
                      local place = math.random(1, #encoded)
                      pcall(json.decode, encoded:sub(1, place - 1) .. string.char(math.random(0, 255)) .. encoded:sub(place + 1))
                    end
                    """#, arguments: [.integer(Int(seed))])
        }
    }

    @Test("null, empty arrays and the functions are the same in all operations")
    func travelling() throws {
        try script(
            Self.prelude + #"""
                local null, decode = json.null, json.decode
                local document = json.decode '{"a":null,"b":[],"c":[1]}'
                local a, b, isEmpty = queue:run(function(_, d)
                  assert(d.a == null and null == opscript.json.null and decode == require "opscript.json".decode)
                  return d.a, d.b, json.encode(d.b) == "[]" and json.encode(document.b) == "[]"
                end, document)
                assert(a == null and json.encode(b) == "[]" and isEmpty)
                assert(opscript.freeze(json.decode "[null]")[1] == null)
                for _ = 1, 4 do
                  queue:run(function() local json = opscript.json json.encode, json.emptyArray[1] = print, 1 end)
                  assert(queue:run(function() return opscript.json.encode(opscript.json.decode "[]") end) == "[]")
                end
                """#)
    }

    @Test("A document is decoded into a frozen value")
    func frozen() throws {
        try script(
            Self.prelude + #"""
                local d = json.decode('{"a":[1,null,{"b":"text"}],"e":[],"o":{}}', { frozen = true })
                assert(opscript.isFrozen(d) and d.a[1] == 1 and d.a[2] == json.null and d.a[3].b == "text" and #d.e == 0)
                assert(queue:run(function(_, d) return d.a[3].b .. opscript.json.encode(d.e) .. opscript.json.encode(d.o) end, d) == "text[]{}")
                same(json.encode(d, { pretty = true }):gsub("%s", ""), '{"a":[1,null,{"b":"text"}],"e":[],"o":{}}')
                assert(json.decode("1", { frozen = true }) == 1 and not opscript.isFrozen(json.decode("[1]", { frozen = false })))
                """#)
    }

    @Test("A sandbox has json, and scripts there cannot change it for others")
    func sandbox() throws {
        var configuration = Runtime.Configuration()
        configuration.sandbox = .untrusted
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            for _ = 1, 4 do
              queue:run(function() opscript.json.decode = nil rawset(opscript.json.emptyArray, 1, 1) end)
              assert(queue:run(function() return #opscript.json.decode "[]" + #opscript.json.emptyArray end) == 0)
            end
            """)
    }

    @Test("A time limit ends the decoding of a long text")
    func stopped() throws {
        try script(
            """
            local text = "[" .. ("1,"):rep(1 << 22) .. "1]"
            local op = queue:addOperation(function(op) op.begun = true while true do opscript.json.decode(text) end end)
            repeat opscript.sleep(0.001) until op.begun
            op:interrupt()
            op:waitUntilFinished()
            assert(op.error.kind == "interrupted")
            """)
    }
}
