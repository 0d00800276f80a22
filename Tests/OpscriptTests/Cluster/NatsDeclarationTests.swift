import Testing

@Suite("Declarations of libnats")
struct NatsDeclarationTests {
    @Test("What CNats declares of libnats agrees with libnats's header", arguments: ["gcc", "clang"])
    func agreement(compiler: String) throws {
        let constants = [
            "NATS_OK", "NATS_CONNECTION_AUTH_FAILED", "NATS_INVALID_ARG", "NATS_NO_MEMORY", "NATS_TIMEOUT", "NATS_CONN_STATUS_CONNECTED",
        ]
        let program = """
            #include <nats/nats.h>
            enum { \(constants.map { "their_\($0) = \($0)" }.joined(separator: ", ")) };
            #include "libraries.h"
            \(constants.map { "_Static_assert(\($0) == their_\($0), \"\($0)\");" }.joined(separator: "\n"))
            #define AGREES(result, name, ...) \\
                _Static_assert(__builtin_types_compatible_p(__typeof__(nats_functions.name), __typeof__(&name)), #name);
            NATS_FUNCTIONS(AGREES)
            """
        let compile = #""$1" -x c -std=c11 -Wall -Wextra -Werror -fsyntax-only -I "$2" -"#
        let outcome = try Command.shell(compile, compiler, Paths.package + "/Sources/CNats").input(program).run()
        #expect(outcome == Outcome(status: 0, output: [], errors: []), "\(outcome)")
    }
}
