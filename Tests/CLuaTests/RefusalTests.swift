import CLua
import Testing

/// The errors for values that cannot be sent.
@Suite struct RefusalTests {
    @Test(arguments: [
        (
            "local conn = { socket = io.tmpfile() }; return function() return conn end",
            "upvalue 'conn'.socket (a userdata) of function <test:1>; open it inside the body"
        ),
        (
            "local co = coroutine.create(print); return function() return co end",
            "upvalue 'co' (a coroutine) of function <test:1>; create it inside the body"
        ),
        (
            "local gmatch = ('x'):gmatch '.'; gmatch() return function() return gmatch() end",
            "upvalue 'gmatch' (an iterator of string.gmatch that has begun) of function <test:1>; call string.gmatch inside the body"
        ),
        (
            "local lines = io.lines('/dev/null'); return function() return lines() end",
            "upvalue 'lines' (an iterator over the lines of a file) of function <test:1>; open the file inside the body"
        ),
        (
            "local f = pairs(opscript.freeze {}); return function() return f end",
            "upvalue 'f' (a C function) of function <test:1>; create it inside the body, or in a module that the body requires"
        ),
        (
            "files = { list = { {}, { io.tmpfile() } } }; return function() return files end",
            "global 'files'.list[2][1] (a userdata) of function <test:1>; open it inside the body"
        ),
        (
            "local f = io.tmpfile()\nlocal function inner() return f end\nreturn function() return inner end",
            "upvalue 'f' (a userdata) of function <test:2>; open it inside the body"
        ),
        (
            "local t = { ['two words'] = { [1.5] = coroutine.create(print) } }; return function() return t end",
            "upvalue 't'[\"two words\"][a number] (a coroutine) of function <test:1>; create it inside the body"
        ),
        (
            "local t = { [coroutine.create(print)] = 1 }; return function() return t end",
            "upvalue 't' key (a coroutine) of function <test:1>; create it inside the body"
        ),
        (
            "local t = setmetatable({}, { __index = io.tmpfile() }); return function() return t end",
            "upvalue 't'.<metatable>.__index (a userdata) of function <test:1>; open it inside the body"
        ),
        ("return coroutine.wrap(print)", "the main function (a function of coroutine.wrap); create it inside the body"),
        ("return print, 1, { x = coroutine.create(print) }", "argument 2.x (a coroutine); create it inside the body"),
    ])
    func bodies(_ source: String, _ message: String) throws {
        #expect(try refusal(source, as: CLUA_BODY) == "cannot send " + message)
    }

    /// Bytecode that does something before its first instruction, and so before a hook could stop it: the parameters do not fit on its stack, or a
    /// function with varargs does not prepare them, or prepares another number.
    @Test(arguments: [
        (#"function(a, b) end"#, #"\2\0\2\x81"#, #"\9\0\2\x81"#), (#"function(...) return ... end"#, #"\x51\0\0\0"#, #"\x46\0\1\0"#),
        (#"function(...) return ... end"#, #"\x51\0\0\0"#, #"\xd1\x01\0\0"#),
    ])
    func codeThatBeginsOddly(function: String, bytes: String, replacement: String) throws {
        let source =
            "local dump, n = string.dump(\(function)):gsub('\(bytes)', '\(replacement)', 1) assert(n == 1) return load(dump, '=x', 'b')"
        #expect(try refusal(source, as: CLUA_BODY) == "the code of a function cannot be read")
    }

    @Test func results() throws {
        #expect(
            try refusal("return 1, { handle = io.tmpfile() }", as: CLUA_RESULTS)
                == "cannot send result 2.handle (a userdata); open it inside the body")
    }

    @Test func storedValues() throws {
        #expect(try refusal("return { io.tmpfile() }") == "cannot send the value[1] (a userdata); open it inside the body")
    }

    @Test func theMiddleOfALongWayIsLeftOut() throws {
        let message = try refusal("local t = { coroutine.create(print) } for i = 1, 1000 do t = { n = t } end return t", as: CLUA_RESULTS)
        #expect(message == "cannot send result 1…" + String(repeating: ".n", count: 19) + "[1] (a coroutine); create it inside the body")
    }

    @Test func aKeyWithAZeroByteIsShown() throws {
        #expect(
            try refusal("return { ['a\\0b'] = coroutine.create(print) }")
                == "cannot send the value[\"a\0b\"] (a coroutine); create it inside the body")
    }

    @Test func aRefusalLeavesTheSenderAsItWas() throws {
        let sender = State()
        try sender.run("conn = coroutine.create(print); return function() return conn end")
        for _ in 1...3 {
            sender.count = 1
            #expect(throws: ScriptError.self) { _ = try sender.encode(1, as: CLUA_BODY) }
            try sender.run("return function() return conn end")
        }
        sender.count = 0
        try sender.run("conn = 7; return function() return conn end")
        let receiver = State()
        try receiver.decode(try sender.encode(1, as: CLUA_BODY), in: CLUA_FRESH_ENVIRONMENT)
        try receiver.run("assert((...)() == 7)", arguments: 1)
    }
}
