import Glibc
import Testing

@Suite("The memory of the command")
struct MemoryTests {
    private static var hasHugePages: Bool { unsafe access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0 }

    /// Fills some 30 MB, and prints whether huge pages were requested.
    private static let fill = """
        local kept = {}
        for i = 1, 500000 do kept[i] = {} end
        local isHuge = false
        for line in io.lines "/proc/self/smaps" do isHuge = isHuge or line:find "^VmFlags:.* hg" ~= nil end
        print(isHuge)
        """

    @Test("Once there are operations, memory grows by huge pages", .enabled(if: hasHugePages && Paths.hasJemalloc))
    func hugePages() throws {
        let outcome = try Command.opscript(
            "-e", "opscript.OperationQueue.new():addOperation(function() end):waitUntilFinished()", "-e", Self.fill
        ).run()
        #expect(outcome.status == 0 && outcome.text == "true\n")
    }

    @Test("Without operations, memory does not grow by huge pages", .enabled(if: hasHugePages))
    func noHugePages() throws {
        let outcome = try Command.opscript("-e", Self.fill).run()
        #expect(outcome.status == 0 && outcome.text == "false\n")
    }
}
