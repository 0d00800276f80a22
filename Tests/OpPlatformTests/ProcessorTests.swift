import Testing

@testable import OpPlatform

@Suite struct ProcessorTests {
    private func count(_ affinity: Int, _ files: [String: String]) -> Int { Processors { files[$0] }.count(affinity: affinity) }

    @Test func withoutAQuotaTheAffinityMaskCounts() {
        #expect(count(6, [:]) == 6)
        #expect(count(6, ["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"]) == 6)
        #expect(count(0, [:]) >= 1)
    }

    @Test func aQuotaIsRoundedUp() {
        #expect(count(8, ["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "250000 100000\n"]) == 3)
        #expect(count(8, ["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "1000 100000\n"]) == 1)
        #expect(count(2, ["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "900000 100000\n"]) == 2)
    }

    @Test func theTightestLimitOnTheWayToTheRootCounts() {
        let files = [
            "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/cpu.max": "200000 100000\n", "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        ]
        #expect(count(8, files) == 2)
    }

    @Test func version1HasFilesOfItsOwn() {
        var files = [
            "/proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/docker/x\n0::/docker/x\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "400000\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
        ]
        #expect(count(8, files) == 4)
        // Inside a container, the container's own group appears as the root.
        files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "300000\n"
        files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n"
        #expect(count(8, files) == 3)
        files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n"
        #expect(count(8, files) == 4)
    }

    @Test func withoutTheListOfGroupsTheRootIsLookedAt() {
        #expect(count(8, ["/sys/fs/cgroup/cpu.max": "200000 100000"]) == 2)
        #expect(count(8, ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"]) == 1)
    }

    @Test func whatIsNotUnderstoodIsNoLimit() {
        #expect(count(4, ["/proc/self/cgroup": "nonsense\n\n0::\n", "/sys/fs/cgroup/cpu.max": "a b c"]) == 4)
        #expect(count(4, ["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "100000 0"]) == 4)
    }
}
