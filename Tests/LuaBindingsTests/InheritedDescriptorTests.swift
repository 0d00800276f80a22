import LuaBindings
import Testing

/// Programs of a body have the descriptors 0, 1 and 2, also in a worker process: not its connection, through which they could answer the host.
@Suite struct InheritedDescriptorTests {
    @Test func aProgramInAWorkerProcessHasNoConnectionToTheHost() throws {
        try withProcesses { runtime in
            let found = try runtime.run(
                """
                return queue:addOperation(function()
                    local list, path = "ls /proc/$$/fd; :", os.tmpname()
                    os.execute("sh -c '" .. list .. "' >" .. path)
                    local file = io.open(path)
                    local executed = file:read "a"
                    file:close()
                    os.remove(path)
                    return executed, io.popen(list):read "a", opscript.run(list),
                        opscript.sh { list, stdout = "pipe" }:read "a"
                end):get()
                """)
            #expect(found == ["0\n1\n2\n", "0\n1\n2\n", "0\n1\n2", "0\n1\n2\n"])
        }
    }
}
