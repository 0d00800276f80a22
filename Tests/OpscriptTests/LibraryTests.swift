import TestSupport
import Testing

@Suite(
    "The library for programs in C",
    .disabled(if: TestLength.isQuick && InstalledLibrary.library == nil, "scripts/build --library takes minutes"))
struct LibraryTests {
    private let library: InstalledLibrary

    init() throws { library = try InstalledLibrary() }

    @Test("The header compiles as C99, C11 and C++17 with all warnings", arguments: ["c -std=c99", "c -std=c11", "c++ -std=c++17"])
    func header(language: String) throws {
        let outcome = try library.run(
            #"gcc -x \#(language) -Wall -Wextra -Werror -pedantic -fsyntax-only "$1/include/opscript.h""#)
        #expect(outcome == Outcome(status: 0, output: [], errors: []), "\(outcome)")
    }

    @Test("The library exports the functions of the header, and nothing else")
    func symbols() throws {
        let exported = try library.run(#"nm -D --defined-only --extern-only "$1/lib/libopscript.so" | cut -d ' ' -f 3"#).lines
        let declared = InstalledLibrary.declaredFunctions()
        #expect(declared.count > 100)
        #expect(Set(exported) == declared, "\(Set(exported).symmetricDifference(declared).sorted())")
    }

    @Test("The library needs Lua, libuv, the libraries of the store and the C library, and stays in memory")
    func dependencies() throws {
        let needed = try library.run(#"readelf -d "$1/lib/libopscript.so" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'"#).lines
        let allowed = [
            "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "liblua5.4.so.0", "libuv.so.1",
            "libsqlite3.so.0", "libxxhash.so.0", "libzstd.so.1",
        ]
        #expect(!needed.isEmpty && Set(needed).isSubset(of: allowed), "\(needed)")
        let dynamic = try library.run(#"readelf -d "$1/lib/libopscript.so""#).text
        #expect(dynamic.contains("NODELETE") && dynamic.contains(#/SONAME.*\[libopscript\.so\.\d+\.\d+\]/#))
    }

    @Test("The library has the version of the command")
    func version() throws {
        let command = try Command.opscript("--version").run().text
        let library = try library.run("pkg-config --modversion opscript").lines.first ?? "none"
        #expect(command.hasPrefix("opscript \(library),"), "\(command)\(library)")
    }

    @Test("The test program uses every function, and finds no failure and no error of memory")
    func everyFunction() throws {
        let sources = try library.run(#"cat "$3"/Tests/OpscriptLibrary/*.c"#).text
        for function in InstalledLibrary.declaredFunctions() { #expect(sources.contains("\(function)("), "\(function) is not tested") }
        let built = try library.run(
            """
            exec gcc -std=c11 -g -O1 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L $(pkg-config --cflags opscript) -o "$2/test" \
            "$3"/Tests/OpscriptLibrary/*.c $(pkg-config --libs opscript) -lm -lpthread "-Wl,-rpath,$1/lib"
            """)
        try #require(built == Outcome(status: 0, output: [], errors: []), "\(built)")
        let expected = Outcome(status: 0, output: Array("all checks: 0 failures\n".utf8), errors: [])
        let outcome = try library.run(#"exec "$2/test""#)
        #expect(outcome == expected, "\(outcome)")
        let checked = try library.check(#""$2/test" without-processes"#)
        #expect(checked.status == 0 && checked.output == expected.output, "\(checked)")
    }

    @Test("The host in C prints what it should, without an error of memory")
    func hostInC() throws {
        let expected = Paths.read("\(Paths.package)/examples/hosts/c/host.expected") ?? []
        let built = try library.run(#"make -s -C "$3/examples/hosts/c" "OUTPUT=$2/host" CFLAGS='-std=c99 -Wall -Wextra -Werror -pedantic'"#)
        try #require(built == Outcome(status: 0, output: [], errors: []), "\(built)")
        let outcome = try library.run(#"exec "$2/host""#)
        #expect(outcome == Outcome(status: 0, output: expected, errors: []), "\(outcome)")
        let checked = try library.check(#""$2/host""#)
        #expect(checked.status == 0 && checked.output == expected, "\(checked)")
    }

    @Test("The host in Python prints what it should")
    func hostInPython() throws {
        let outcome = try library.run(#"exec "$3/examples/hosts/python/run""#)
        let expected = Paths.read("\(Paths.package)/examples/hosts/python/host.expected") ?? []
        #expect(outcome == Outcome(status: 0, output: expected, errors: []), "\(outcome)")
    }
}

@Suite("The guide for programs in C")
struct LibraryGuideTests {
    @Test("The code in the guide is that of the hosts, and so is the output")
    func code() throws {
        let read = { (path: String) in String(decoding: Paths.read("\(Paths.package)/\(path)") ?? [], as: UTF8.self) }
        let blocks = Markdown.blocks(in: read("docs/embedding-c.md"))
        let sources = ["c": "examples/hosts/c/host.c", "python": "examples/hosts/python/host.py", "": "examples/hosts/c/host.expected"]
        for (language, path) in sources {
            let source = read(path)
            let ofLanguage = blocks.filter { $0.language == language }
            #expect(!ofLanguage.isEmpty, "\(language)")
            for block in ofLanguage { #expect(source.contains(block.text), "docs/embedding-c.md:\(block.line)") }
        }
    }
}
