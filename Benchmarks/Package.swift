// swift-tools-version: 6.2
import PackageDescription

// Each subject is a program of its own: `subject WORKLOAD COUNT` prints one number. `bench` runs the subjects in turn.
// `scripts/bench` builds and runs all of it. docs/performance.md explains the workloads.

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6)]
let engine = Target.Dependency.product(name: "OpEngine", package: "opscript")
// SwiftPM reads this manifest again when the environment differs, and not when a file appears.
let hasTBB = Context.environment["BENCH_TBB"] == "yes"

var targets: [Target] = [
    .target(name: "CMeasuring"),
    .target(name: "Measuring", dependencies: ["CMeasuring"], swiftSettings: settings),
    // The workloads in Operations are compiled twice: with OpEngine and with Foundation.
    .executableTarget(name: "OpEngineSubject", dependencies: [engine, "Measuring"], swiftSettings: settings),
    .executableTarget(
        name: "HostSubject", dependencies: [engine, .product(name: "LuaBindings", package: "opscript"), "Measuring"],
        swiftSettings: settings),
    .executableTarget(name: "FoundationSubject", dependencies: ["Measuring"], swiftSettings: settings),
    .executableTarget(name: "DispatchSubject", dependencies: ["Measuring"], swiftSettings: settings),
    .executableTarget(name: "TaskGroupSubject", dependencies: ["Measuring"], swiftSettings: settings),
    .executableTarget(name: "CSubject"),
    .executableTarget(name: "CLuaSubject", linkerSettings: [.linkedLibrary("lua5.4")]),
    .executableTarget(name: "bench", dependencies: ["CMeasuring"], path: "Sources/Bench", swiftSettings: settings),
]
if hasTBB {
    targets.append(.executableTarget(name: "TBBSubject", linkerSettings: [.linkedLibrary("tbb")]))
}

let package = Package(
    name: "Benchmarks",
    dependencies: [.package(name: "opscript", path: "..")],
    targets: targets,
    cLanguageStandard: .c11,
    cxxLanguageStandard: .cxx17
)
