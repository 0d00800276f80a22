// swift-tools-version: 6.2
import Foundation
import PackageDescription

// What is measured, and what it is measured against, each a program of its own: `subject WORKLOAD COUNT` prints one number.
// `bench` runs them in turn. See docs/performance.md; `scripts/bench` builds and runs all of it.

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6)]
let engine = Target.Dependency.product(name: "OpEngine", package: "opscript")
let hasTBB = FileManager.default.fileExists(atPath: "/usr/include/oneapi/tbb.h")

var targets: [Target] = [
    .target(name: "CMeasuring"),
    .target(name: "Measuring", dependencies: ["CMeasuring"], swiftSettings: settings),
    // The workloads are written once, in Operations, and compiled twice.
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
