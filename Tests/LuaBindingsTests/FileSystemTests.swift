import LuaBindings
import TestSupport
import Testing

/// `opscript.fs`. The scripts have a folder `dir` of their own.
@Suite struct FileSystemTests {
    /// Runs a script as the function `check`, in the main state and in a body.
    private func both(_ source: String) throws {
        try script(
            """
            local fs, dir = opscript.fs, opscript.fs.tempdir() .. "/"
            local function bare(text)
              local from, to = text:find(dir, 1, true)
              return from and bare(text:sub(1, from - 1) .. text:sub(to + 1)) or text
            end
            local function check()
              \(source)
            end
            check()
            fs.remove(dir)
            assert(fs.mkdir(dir))
            queue:run(check)
            """)
    }

    @Test("Files are written, read, examined and listed")
    func files() throws {
        try both(
            """
            assert(fs.mkdir(dir .. "a/b//c/") == true and fs.mkdir(dir .. "a/b/c") == true)
            assert(fs.write(dir .. "a/one", "text") and fs.write(dir .. "a/b/two", ("x"):rep(100000) .. "\\0end"))
            assert(fs.read(dir .. "a/one") == "text" and #fs.read(dir .. "a/b/two") == 100004 and fs.read "/dev/null" == "")
            assert(#fs.read "/proc/self/status" > 100)
            assert(fs.exists(dir .. "a/one") == true and fs.exists(dir .. "a/b") == true and fs.exists(dir .. "a/no") == false)
            assert(fs.exists(dir .. "a/one/no") == false)
            local about = fs.stat(dir .. "a/one")
            assert(about.type == "file" and about.size == 4 and about.links == 1 and about.mode & 0x180 == 0x180)
            assert(math.abs(about.modified - os.time()) < 1000 and math.type(about.inode) == "integer")
            assert(fs.stat(dir .. "a").type == "directory" and fs.stat("/dev/null").type == "device")
            assert(fs.symlink("one", dir .. "a/link") and fs.readlink(dir .. "a/link") == "one")
            assert(fs.stat(dir .. "a/link").type == "file" and fs.stat(dir .. "a/link", { follow = false }).type == "link")
            -- A file keeps its mode, and a link stays one, when their contents are replaced.
            opscript.run { "chmod", "640", dir .. "a/one" }
            assert(fs.write(dir .. "a/link", "new") and fs.read(dir .. "a/one") == "new" and fs.stat(dir .. "a/one").mode == tonumber("640", 8))
            assert(fs.readlink(dir .. "a/link") == "one")
            local found = {}
            for path, kind, size in fs.walk(dir .. "a") do found[#found + 1] = path:sub(#dir + 1) .. " " .. kind .. (kind == "file" and size or "") end
            assert(table.concat(found, ", ") == "a/b directory, a/b/c directory, a/b/two file100004, a/link link, a/one file3", table.concat(found, ", "))
            assert(fs.remove(dir .. "a") == true and not fs.exists(dir .. "a"))
            """)
    }

    @Test("A copy has the contents, times and modes, of trees too; a move gives another name")
    func copies() throws {
        try both(
            """
            fs.mkdir(dir .. "a/b")
            fs.write(dir .. "a/one", ("1"):rep(300000))
            fs.write(dir .. "a/b/empty", "")
            fs.symlink("/no/such", dir .. "a/b/link")
            opscript.run { "mkfifo", dir .. "a/fifo" }
            opscript.run { "chmod", "751", dir .. "a/one" }
            opscript.run { "touch", "-d", "2001-02-03 04:05:06", dir .. "a/one", dir .. "a/b" }
            assert(fs.copy(dir .. "a", dir .. "copy") == true)
            for path in fs.walk(dir .. "a", { hidden = true }) do
              local one, other = fs.stat(path, { follow = false }), fs.stat((path:gsub("/a/", "/copy/")), { follow = false })
              assert(other and one.type == other.type and one.mode == other.mode and one.modified == other.modified, path)
            end
            assert(fs.read(dir .. "copy/one") == fs.read(dir .. "a/one") and fs.readlink(dir .. "copy/b/link") == "/no/such")
            -- A file replaces a file. A link is copied as what it leads to.
            fs.symlink("one", dir .. "a/link")
            assert(fs.copy(dir .. "a/link", dir .. "copy/b/empty") and #fs.read(dir .. "copy/b/empty") == 300000)
            assert(fs.copy("/proc/self/status", dir .. "status") and #fs.read(dir .. "status") > 100)
            assert(fs.move(dir .. "a", dir .. "moved") and fs.exists(dir .. "moved/b/empty") and not fs.exists(dir .. "a"))
            -- Another file system.
            local other <const> = "/dev/shm/opscript-" .. fs.stat(dir).inode
            if fs.mkdir(other) and fs.stat(other).device ~= fs.stat(dir).device then
              assert(fs.move(dir .. "moved", other .. "/tree") and not fs.exists(dir .. "moved"))
              assert(fs.stat(other .. "/tree/one").mode == tonumber("751", 8) and fs.readlink(other .. "/tree/b/link") == "/no/such")
              assert(fs.move(other .. "/tree/one", dir .. "status") and #fs.read(dir .. "status") == 300000)
            end
            fs.remove(other)
            for path in fs.walk(dir, { hidden = true }) do assert(not path:find "%.opscript", path) end
            """)
    }

    @Test("A failure is nil, a message with the path, and the number of the system's error; a wrong argument raises")
    func errors() throws {
        try both(
            #"""
            fs.write(dir .. "file", "")
            fs.mkdir(dir .. "full/inner")
            fs.symlink("loop", dir .. "loop")
            local function fails(expected, code, name, ...)
              local value, message, number = fs[name](...)
              message = bare(tostring(message))
              if value ~= nil or message ~= expected or number ~= code then error(name .. ": " .. message .. " " .. tostring(number), 2) end
            end
            fails("no: No such file or directory", 2, "read", dir .. "no")
            fails("full: Is a directory", 21, "read", dir .. "full")
            fails("no: No such file or directory", 2, "stat", dir .. "no")
            fails("loop: Too many levels of symbolic links", 40, "exists", dir .. "loop")
            fails("file: Invalid argument", 22, "readlink", dir .. "file")
            fails("file: File exists", 17, "symlink", "x", dir .. "file")
            fails("file: File exists", 17, "mkdir", dir .. "file")
            fails("file: File exists", 17, "mkdir", dir .. "file/a/b")
            fails(": No such file or directory", 2, "mkdir", "")
            fails("no: No such file or directory", 2, "remove", dir .. "no")
            fails("/: Device or resource busy", 16, "remove", "/")
            fails("full/.: Invalid argument", 22, "remove", dir .. "full/.")
            fails("no/x: No such file or directory", 2, "write", dir .. "no/x", "text")
            fails("full: Is a directory", 21, "write", dir .. "full", "text")
            fails("/dev/null: Operation not supported", 95, "write", "/dev/null", "text")
            fails("no: No such file or directory", 2, "copy", dir .. "no", dir .. "x")
            fails("no/x: No such file or directory", 2, "copy", dir .. "file", dir .. "no/x")
            fails("full: File exists", 17, "copy", dir .. "file", dir .. "full")
            fails("full: File exists", 17, "copy", dir .. "full", dir .. "full")
            fails("file: File exists", 17, "copy", dir .. "file", dir .. "file")
            fails("/dev/null: File exists", 17, "copy", dir .. "file", "/dev/null")
            fails("full: cannot be copied into itself", 22, "copy", dir .. "full", dir .. "full/inner/x")
            fails("/dev/null: Operation not supported", 95, "copy", "/dev/null", dir .. "x")
            fails("no: No such file or directory", 2, "move", dir .. "no", dir .. "x")
            fails("full: Is a directory", 21, "move", dir .. "file", dir .. "full")
            assert(not fs.exists(dir .. "x") and #fs.glob(dir .. "full/**") == 0)
            local function raises(expected, f, ...)
              local ok, message = pcall(f, ...)
              if ok or not bare(message):find(expected, 1, true) then error(tostring(message), 2) end
            end
            raises("bad argument #1 to 'mkdir' (string expected, got nil)", function() fs.mkdir(nil) end)
            raises("bad argument #1 to 'opscript.fs.mkdir' (string expected, got nil)", fs.mkdir, nil)
            raises("bad argument #1 to 'opscript.fs.read' (string expected, got no value)", fs.read)
            raises("bad argument #2 to 'opscript.fs.write' (string expected, got table)", fs.write, dir .. "x", {})
            raises("bad argument #1 to 'opscript.fs.stat' (path contains a zero byte)", fs.stat, "a\0b")
            raises("bad argument #2 to 'opscript.fs.stat' (follow must be true or false, got number)", fs.stat, dir, { follow = 1 })
            raises("bad argument #2 to 'opscript.fs.stat' (unknown option 'folow')", fs.stat, dir, { folow = false })
            raises("bad argument #2 to 'opscript.fs.walk' (unknown option 'mach')", fs.walk, dir, { mach = "*" })
            raises("bad argument #2 to 'opscript.fs.walk' (match must be a pattern, got number)", fs.walk, dir, { match = 1 })
            raises("bad argument #2 to 'opscript.fs.walk' (hidden must be true or false, got string)", fs.walk, dir, { hidden = "no" })
            raises("bad argument #2 to 'opscript.fs.walk' (table expected, got string)", fs.walk, dir, "*")
            raises("no: No such file or directory", fs.walk, dir .. "no")
            raises("file: Not a directory", fs.walk, dir .. "file")
            raises("(the pattern has too many slashes)", fs.glob, ("*/"):rep(100))
            """#)
    }

    @Test("Names are bytes: those with newlines, without UTF-8, of the greatest length, and in deep folders")
    func oddNames() throws {
        try both(
            #"""
            local names = { "a\nb", "\xff\xfe", " ", "-rf", "*", "[", ("n"):rep(255), "\1", "ä" }
            table.sort(names)
            for _, name in ipairs(names) do assert(fs.write(dir .. name, name)) end
            local found = {}
            for path, kind in fs.walk(dir) do
              assert(kind == "file" and fs.read(path) == path:sub(#dir + 1))
              found[#found + 1] = path:sub(#dir + 1)
            end
            assert(table.concat(found, "|") == table.concat(names, "|"))
            assert(#fs.glob(dir .. "*") == #names and fs.glob(dir .. "\\*")[1] == dir .. "*" and fs.glob(dir .. "\xff?")[1] == dir .. "\xff\xfe")
            for _, name in ipairs(names) do assert(fs.remove(dir .. name)) end
            -- Deeper than a path may be long, and than there may be descriptors.
            opscript.run { "sh", "-c", "cd '" .. dir .. "' && for i in $(seq 1500); do mkdir deep && cd -P deep && echo >file; done" }
            assert(fs.remove(dir .. "deep") and not fs.exists(dir .. "deep"))
            """#)
    }

    @Test("A removed tree takes nothing along that its links lead to")
    func linksLeadOut() throws {
        try both(
            """
            fs.mkdir(dir .. "kept/inner")
            fs.write(dir .. "kept/file", "text")
            fs.mkdir(dir .. "tree/a")
            for _, target in ipairs { "kept", "kept/inner", "kept/file" } do
              assert(fs.symlink(dir .. target, dir .. "tree/" .. target:gsub("/", "-")) and fs.symlink("../../" .. target, dir .. "tree/a/" .. target:gsub("/", "-")))
            end
            fs.symlink(dir .. "tree", dir .. "link")
            assert(fs.remove(dir .. "link/") and fs.exists(dir .. "tree/a"))
            assert(fs.remove(dir .. "tree") and not fs.exists(dir .. "tree"))
            assert(fs.read(dir .. "kept/file") == "text" and fs.exists(dir .. "kept/inner"))
            """)
    }

    @Test("A tree that another thread changes is removed without following a link")
    func changingTree() throws {
        try script(
            """
            local fs, dir = opscript.fs, opscript.fs.tempdir() .. "/"
            fs.mkdir(dir .. "kept")
            for i = 1, 20 do fs.write(dir .. "kept/" .. i, "") end
            local swapper = queue:addOperation(function(op)
              while not op.isCancelled do
                fs.move(dir .. "tree/a", dir .. "aside")
                fs.symlink(dir .. "kept", dir .. "tree/a")
                fs.remove(dir .. "tree/a")
                fs.move(dir .. "aside", dir .. "tree/a")
              end
            end)
            queue:run(function()
              for round = 1, 200 do
                fs.mkdir(dir .. "tree/a/b")
                fs.write(dir .. "tree/a/b/file", "")
                fs.remove(dir .. "tree")
              end
            end)
            swapper:cancel()
            swapper:waitUntilFinished()
            assert(#fs.glob(dir .. "kept/*") == 20)
            """)
    }

    @Test("What tempdir and tempfile have made goes when the operation ends: after success, an error, a stop")
    func temporaries() throws {
        try script(
            """
            local fs = opscript.fs
            local function make(op, ends)
              local folder, file = fs.tempdir(), fs.tempfile()
              assert(fs.stat(folder).type == "directory" and fs.stat(folder).mode == 448 and fs.stat(file).size == 0)
              fs.write(folder .. "/a", "text")
              fs.mkdir(folder .. "/b/c")
              op.folder, op.file = folder, file
              if ends == "error" then error "no" end
              while ends == "stop" do end
              if ends == "wait" then opscript.sleep(1000) end
              if ends == "moved" then fs.remove(folder) end
              return folder
            end
            local function isGone(op)
              op:waitUntilFinished()
              return op.folder and not fs.exists(op.folder) and not fs.exists(op.file)
            end
            for _, ends in ipairs { "success", "error", "moved" } do
              local op = queue:addOperation(make, ends)
              assert(isGone(op), ends)
              assert((op.error ~= nil) == (ends == "error"))
            end
            for _, ends in ipairs { "stop", "wait" } do
              local op = queue:addOperation(make, ends)
              repeat opscript.sleep(0.001) until op.folder and op.file
              assert(fs.exists(op.folder) and fs.exists(op.file))
              if ends == "stop" then op:interrupt() else op:cancel() end
              assert(isGone(op), ends)
            end
            -- An operation that another one runs in its own thread meanwhile has its own.
            queue:run(function(_, make, isGone)
              local own = fs.tempdir()
              local inner = opscript.Operation.new(make, "success")
              inner:start()
              assert(isGone(inner) and fs.exists(own))
            end, make, isGone)
            local main = OperationQueue.main:addOperation(make, "success")
            assert(isGone(main))
            """)
        var paths: [String] = []
        try withRuntime { runtime in
            try runtime.run("folder, file = opscript.fs.tempdir(), opscript.fs.tempfile(); opscript.fs.write(folder .. '/a', '')")
            _ = try runtime.finish()
            paths = try runtime.run("assert(opscript.fs.exists(folder .. '/a') and opscript.fs.exists(file)) return folder, file")
                .compactMap(\.text)
        }
        #expect(paths.count == 2)
        try withRuntime { runtime in
            for path in paths {
                let exists = try runtime.run("return opscript.fs.exists(...)", arguments: [.string(path)])
                #expect(exists == [false])
            }
        }
    }

    @Test("A temporary folder that cannot be made is an error with the path")
    func noTemporaries() throws {
        try script("assert(opscript.fs.path.split(opscript.fs.tempdir()) == (os.getenv 'TMPDIR' or '/tmp'):gsub('(.)/$', '%1'))")
    }

    @Test("A stop ends a copy, and half a copy disappears")
    func stoppedCopy() throws {
        try script(
            """
            local fs, dir = opscript.fs, opscript.fs.tempdir() .. "/"
            fs.mkdir(dir .. "from")
            fs.mkdir(dir .. "to")
            opscript.run { "truncate", "-s", "1T", dir .. "from/large" }
            local op = queue:addOperation(function() assert(fs.copy(dir .. "from", dir .. "to/copy")) end)
            repeat
              opscript.sleep(0.001)
              local hasBegun
              for _, kind, size in fs.walk(dir .. "to", { hidden = true }) do hasBegun = hasBegun or kind == "file" end
            until hasBegun or op.isFinished
            op:interrupt()
            op:waitUntilFinished()
            -- Some file systems copy at once.
            if op.error then
              assert(op.error.kind == "interrupted", op.error)
              for path in fs.walk(dir .. "to", { hidden = true }) do error(path) end
            end
            """)
    }

    @Test("Errors in Lua leave no descriptor open")
    func descriptors() throws {
        try script(
            """
            local fs, dir = opscript.fs, opscript.fs.tempdir() .. "/"
            fs.write(dir .. "large", ("x"):rep(1 << 22))
            for i = 1, 2000 do fs.write(dir .. "f" .. i, "") end
            local failures = 0
            for _, f in ipairs { function() fs.read(dir .. "large") end, function() for _ in fs.walk(dir) do end end } do
              for size = 18, 23 do
                local op = Operation.new(f)
                op.memoryLimit = 1 << size
                queue:addOperation(op):waitUntilFinished()
                if op.error then failures = failures + 1 end
              end
            end
            assert(failures > 0)
            for path in fs.walk "/proc/self/fd" do
              local target = fs.readlink(path)
              assert(not target or target:sub(1, #dir) ~= dir, target)
            end
            """)
    }

    @Test("The functions and the library travel by name; what a body assigns to the library ends with the body")
    func travelling() throws {
        try script(
            """
            local fs, read, join = opscript.fs, opscript.fs.read, opscript.fs.path.join
            assert(require "opscript.fs" == fs and queue:run(function() return fs == opscript.fs and read == fs.read and join == require "opscript.fs.path".join end))
            assert(queue:run(function(_, f) return f end, fs.exists) == fs.exists and opscript.freeze { read }[1] == read)
            assert(queue:run(function() return opscript.fs.read "/dev/null" end) == "")
            for _ = 1, 4 do
              queue:run(function() assert(opscript.fs.read == read) local fs = opscript.fs fs.read, fs.path.join = print, print end)
              queue:run(function() opscript.fs.write = nil end)
              queue:run(function() opscript.fs.path.join = nil end)
              assert(queue:run(function() return opscript.fs.read == read and opscript.fs.write and opscript.fs.path.join == join end))
            end
            """)
    }

    @Test("A sandbox without files has no fs, and a worker has what the main state has")
    func sandbox() throws {
        var configuration = Runtime.Configuration()
        configuration.sandbox = .untrusted
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let check = "opscript.fs == nil and package.loaded['opscript.fs'] == nil and not pcall(require, 'opscript.fs')"
        #expect(try runtime.run("return \(check), opscript.OperationQueue.new():run(function() return \(check) end)") == [true, true])
    }

    @Test("A walk and a glob give what they must")
    func patterns() throws {
        try both(
            #"""
            for path in ("a.c .hidden.c src/b.c src/b.h src/deep/er/c.c src/.git/d.c docs/readme src/empty/"):gmatch "%S+" do
              if path:sub(-1) == "/" then fs.mkdir(dir .. path) else
                fs.mkdir(dir .. fs.path.split(path))
                assert(fs.write(dir .. path, path))
              end
            end
            fs.symlink("src", dir .. "link")
            fs.symlink("../..", dir .. "src/deep/up")
            local function list(options, from)
              local paths = {}
              for path in fs.walk(dir .. (from or ""), options) do paths[#paths + 1] = path:sub(#dir + 1) end
              return table.concat(paths, " ")
            end
            local function same(found, expected) if found ~= expected then error(found, 2) end end
            same(list(), "a.c docs docs/readme link src src/b.c src/b.h src/deep src/deep/er src/deep/er/c.c src/deep/up src/empty")
            same(list({ match = "**/*.c" }), "a.c src/b.c src/deep/er/c.c")
            same(list({ match = "**/*.c", hidden = true }), ".hidden.c a.c src/.git/d.c src/b.c src/deep/er/c.c")
            same(list({ match = "*.c" }, "src"), "src/b.c")
            same(list({ match = "*/b.?" }), "src/b.c src/b.h")
            same(list({ match = "src/.git/*" }), "src/.git/d.c")
            same(list({ match = "**/e*" }), "src/deep/er src/empty")
            same(list({ match = "**/**/c.c" }), "src/deep/er/c.c")
            same(list({ match = "[!a]*" }), "docs link src")
            same(list({ match = "nothing" }), "")
            same(list({ match = "*/b.c", follow = true }), "link/b.c src/b.c")
            same(list({ follow = true }, "src"), "src/b.c src/b.h src/deep src/deep/er src/deep/er/c.c src/deep/up src/deep/up/a.c src/deep/up/docs "
              .. "src/deep/up/docs/readme src/deep/up/link src/deep/up/src src/empty")
            local function glob(pattern) return bare(table.concat(fs.glob(dir .. pattern), " ")) end
            same(glob "*.c", "a.c")
            same(glob "*/*.c", "link/b.c src/b.c")
            same(glob "**/*.c", "a.c src/b.c src/deep/er/c.c")
            same(glob "**", "a.c docs/readme src/b.c src/b.h src/deep/er/c.c")
            same(glob "src/d*/**/c.c", "src/deep/er/c.c")
            same(glob "src/b.c", "src/b.c")
            same(glob "link/b.[ch]", "link/b.c link/b.h")
            same(glob "src", "")
            same(glob "no/*", "")
            assert(fs.glob "/dev/nul[l]"[1] == nil and fs.glob "/et[c]/passwd"[1] == "/etc/passwd")
            -- A folder that is removed, and one that is added, during the walk.
            for path in fs.walk(dir .. "src") do
              if path == dir .. "src/b.c" then fs.remove(dir .. "src/deep") fs.mkdir(dir .. "src/late") end
            end
            """#)
    }

    @Test("A walk gives what find gives")
    func walkIsFind() throws {
        try both(
            """
            local function sorted(list) table.sort(list) return table.concat(list, "\\n") end
            local root = opscript.fs.path.absolute "Sources"
            if not fs.exists(root) then root = "/usr/share/common-licenses" end
            local found, expected = {}, {}
            local kinds = { f = "file", d = "directory", l = "link" }
            for path, kind, size in fs.walk(root, { hidden = true }) do found[#found + 1] = ("%s %s %d"):format(path, kind, size) end
            for line in opscript.run({ "find", root, "-mindepth", "1", "-printf", "%y %s %p\\\\n" }):gmatch "[^\\n]+" do
              local kind, size, path = line:match "^(.) (%d+) (.*)$"
              expected[#expected + 1] = ("%s %s %d"):format(path, kinds[kind], size)
            end
            assert(#found > 10 and sorted(found) == sorted(expected))
            """)
    }

    @Test("A folder that cannot be read is an error of the walk")
    func unreadable() throws {
        try both(
            """
            fs.mkdir(dir .. "a/closed")
            opscript.run { "chmod", "0", dir .. "a/closed" }
            local ok, message = pcall(function() for _ in fs.walk(dir .. "a") do end end)
            -- The superuser reads it.
            assert(ok and fs.glob(dir .. "a/closed/*") or message:find("a/closed: Permission denied", 1, true), message)
            """)
    }

    @Test("Paths are joined, split and made relative")
    func paths() throws {
        try both(
            """
            local path = fs.path
            local function same(found, expected) if found ~= expected then error(tostring(found), 2) end end
            same(path.join("a", "b", "c.c"), "a/b/c.c")
            same(path.join("a/", "", "b"), "a/b")
            same(path.join("a", "/b", "c"), "/b/c")
            same(path.join(), "")
            same(path.join("/", "a"), "/a")
            same(table.concat({ path.split "a/b.tar.gz" }, "|"), "a|b.tar.gz|.gz")
            same(table.concat({ path.split "/b" }, "|"), "/|b|")
            same(table.concat({ path.split "b/" }, "|"), "|b|")
            same(table.concat({ path.split "a//.hidden" }, "|"), "a|.hidden|")
            same(table.concat({ path.split "/" }, "|"), "/||")
            same(table.concat({ path.split ".." }, "|"), "|..|")
            same(path.absolute "/a/./b//../c/", "/a/c")
            same(path.absolute "/../..", "/")
            same(path.absolute "x/y", path.absolute "." .. "/x/y")
            same(path.relative("/a/b/c", "/a/d"), "../b/c")
            same(path.relative("/a/b", "/a/b/"), ".")
            same(path.relative("/a", "/a/b/c"), "../..")
            same(path.relative("/a/bc", "/a/b"), "../bc")
            same(path.relative("/", "/"), ".")
            same(path.relative("a/b"), "a/b")
            for _, f in pairs(path) do assert(not pcall(f, {}) and not pcall(f, "a\\0")) end
            """)
    }
}
