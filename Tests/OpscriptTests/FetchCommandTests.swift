import TestSupport
import Testing

/// `opscript.fetch` in the command: certificates, memory, descriptors, and machines without libcurl.
@Suite("Fetching, by the command")
struct FetchCommandTests {
    private static let server = "\(Paths.package)/Tests/FetchServer/server.py"

    /// Runs a script with a server, whose address is in `base`.
    private func run(
        _ source: String, certificate: String = "", scheme: String = "http", _ environment: [String: String] = [:],
        in directory: ScratchDirectory? = nil
    ) throws -> Outcome {
        let directory = try directory ?? ScratchDirectory()
        let script = """
            local server = opscript.process { '/usr/bin/python3', '\(Self.server)', \(certificate) stdin = 'pipe', stdout = 'pipe' }
            local base = '\(scheme)://localhost:' .. server:read()
            \(source)
            server:closeInput()
            server:wait()
            """
        return try Command.opscript("-").input(script).environment(environment).directory(directory.path).run()
    }

    @Test("A certificate counts if its authority is in cafile")
    func certificates() throws {
        let directory = try ScratchDirectory()
        let made = try Command.shell(
            """
            openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost
            """
        ).directory(directory.path).run()
        #expect(made.status == 0, "\(made)")
        let outcome = try run(
            """
            print(opscript.fetch(base .. '/echo', { cafile = 'cert.pem' }).status)
            print(opscript.fetch(base .. '/redirect/302/to/echo', { cafile = 'cert.pem' }).status)
            for _, options in ipairs { {}, { cafile = 'none.pem' } } do
              print(select(2, pcall(opscript.fetch, base .. '/echo', options)))
            end
            print(select(2, pcall(opscript.fetch, base:gsub('localhost', '127.0.0.1') .. '/echo', { cafile = 'cert.pem' })))
            """, certificate: "'cert.pem', 'key.pem',", scheme: "https", in: directory)
        #expect(outcome.status == 0 && outcome.lines.prefix(2) == ["200", "200"] && outcome.lines.count == 5, "\(outcome)")
        #expect(outcome.lines[2].contains("self-signed certificate") && outcome.lines[3].contains("none.pem"), "\(outcome)")
        #expect(outcome.lines[4].contains("no alternative certificate subject name matches"), "\(outcome)")
    }

    @Test("netrc has the credentials of a host, and a variable names the proxy")
    func settings() throws {
        let directory = try ScratchDirectory()
        try directory.write("machine localhost login user password word\n", to: ".netrc")
        let outcome = try run(
            """
            local function authorization(options) return opscript.fetch(base .. '/echo', options).body:match 'authorization: [^\\n]*' end
            print(authorization { netrc = true }, authorization())
            """, ["HOME": directory.path])
        #expect(outcome.text == "authorization: Basic dXNlcjp3b3Jk\tnil\n", "\(outcome)")
        let proxied = try run("print(select(2, pcall(opscript.fetch, 'http://example.invalid/')))", ["http_proxy": "http://127.0.0.1:1"])
        #expect(proxied.text.hasPrefix("GET http://example.invalid/: Failed to connect to 127.0.0.1 port 1"), "\(proxied)")
    }

    /// 10 GB with `OPSCRIPT_LONG_TESTS=1`.
    @Test("A large file passes through little memory")
    func memory() throws {
        let size = TestLength.isLong ? 10_000_000_000 : 300_000_000
        let outcome = try run(
            """
            opscript.fetch(base .. '/large/\(size)', { output = 'file' })
            local file = io.open 'file'
            local peak = io.open '/proc/self/status':read 'a':match 'VmHWM:%s*(%d+)'
            print(file:seek 'end', tonumber(peak) < 100000 or peak)
            """)
        #expect(outcome.text == "\(size)\ttrue\n", "\(outcome)")
    }

    @Test("Commands of io.popen get no connection, and no file that is written")
    func descriptors() throws {
        let outcome = try run(
            """
            local queue = opscript.OperationQueue.new()
            local op = queue:addOperation(function() opscript.fetch(base .. '/hang/body', { output = 'file' }) end)
            server:read()
            local port, own = base:match '%d+$', io.popen 'ls -l /proc/$PPID/fd':read 'a'
            print(own:find '%.opscript%-' ~= nil, io.popen 'ls -l /proc/self/fd':read 'a':find '%.opscript%-')
            local sockets = {}
            local entry = (':%04X 01 '):format(port) .. '%S+ %S+ %S+%s+%d+%s+%d+ (%d+)'
            for inode in io.open '/proc/net/tcp':read 'a':gmatch(entry) do sockets[inode] = true end
            print(next(sockets) ~= nil)
            for inode in io.popen 'ls -l /proc/self/fd':read 'a':gmatch 'socket:%[(%d+)%]' do
              assert(not sockets[inode], 'a connection is open')
            end
            op:cancel()
            op:waitUntilFinished()
            """)
        #expect(outcome == Outcome(status: 0, output: Array("true\tnil\ntrue\n".utf8), errors: []), "\(outcome)")
    }

    @Test("Without libcurl, or with one that is too old, fetch names the package", arguments: ["", "cc -shared -x c /dev/null -o "])
    func missing(make: String) throws {
        let directory = try ScratchDirectory()
        let made = try Command.shell((make.isEmpty ? ": >" : make) + "libcurl.so.4").directory(directory.path).run()
        #expect(made.status == 0, "\(made)")
        let outcome = try Command.opscript("-e", "opscript.fetch 'http://127.0.0.1:1/'").environment(["LD_LIBRARY_PATH": directory.path])
            .run()
        let expected =
            make.isEmpty
            ? "opscript.fetch: the library libcurl cannot be loaded (\(directory.path)/libcurl.so.4: file too short): install libcurl4"
            : "opscript.fetch: the library libcurl of this machine is too old: it has no curl_global_init"
        #expect(outcome.status == 1 && outcome.errorText.contains(expected), "\(outcome)")
    }

    @Test("What CIO declares of libcurl agrees with libcurl's header", arguments: ["gcc", "clang"])
    func declarations(compiler: String) throws {
        let program = """
            #include <curl/curl.h>
            #include "curl.h"
            #define AGREES_CONSTANT(name, value) _Static_assert(name == value, #name);
            CURL_CONSTANTS(AGREES_CONSTANT)
            #define AGREES(result, name, ...) \\
                _Static_assert(__builtin_types_compatible_p(__typeof__(((curl_library *)0)->name), __typeof__(&name)), #name);
            CURL_FUNCTIONS(AGREES)
            _Static_assert(__builtin_types_compatible_p(CURLcode, unsigned) && __builtin_types_compatible_p(CURLMcode, int), "codes");
            _Static_assert(__builtin_types_compatible_p(CURLoption, unsigned) && __builtin_types_compatible_p(CURLMoption, unsigned), "options");
            _Static_assert(__builtin_types_compatible_p(CURLINFO, unsigned) && sizeof(CURLMSG) == 4, "enumerations");
            _Static_assert(offsetof(CURLMsg, easy_handle) == 8 && offsetof(CURLMsg, data) == 16, "messages");
            _Static_assert(offsetof(struct curl_sockaddr, socktype) == 4 && offsetof(struct curl_sockaddr, addr) == 16, "addresses");
            """
        let compile = #""$1" -x c -std=c11 -Wall -Wextra -Werror -Wno-deprecated-declarations -fsyntax-only -I "$2" -include stddef.h -"#
        let outcome = try Command.shell(compile, compiler, Paths.package + "/Sources/CIO").input(program).run()
        #expect(outcome == Outcome(status: 0, output: [], errors: []), "\(outcome)")
    }
}
