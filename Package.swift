// swift-tools-version: 6.2
import PackageDescription

/// One list for every Swift target: the checks are the same everywhere.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// For the targets that call C or handle raw memory: each such expression is marked `unsafe`.
let strictMemory: [SwiftSetting] = strict + [.strictMemorySafety()]

let package = Package(
    name: "opscript",
    products: [
        .library(name: "OpEngine", targets: ["OpEngine"]),
        .library(name: "OpEngineDispatch", targets: ["OpEngineDispatch"]),
        .library(name: "OpCluster", targets: ["OpCluster"]),
        .library(name: "LuaBindings", targets: ["LuaBindings"]),
        // `scripts/build --library` makes libopscript.so of it.
        .library(name: "OpscriptLibrary", type: .static, targets: ["OpscriptLibrary"]),
        .executable(name: "opscript", targets: ["opscript"]),
        // The worker process of hosts whose operations run in processes.
        .executable(name: "opscript-worker", targets: ["opscript-worker"]),
        // `scripts/build --module` links `opscript.so` from it.
        .library(name: "OpscriptModule", type: .static, targets: ["OpscriptModule"]),
    ],
    targets: [
        // Its folders are layers, which includes name: "Core/registry_raising.h".
        .target(
            name: "CLua", cSettings: [.headerSearchPath(".")],
            linkerSettings: [.linkedLibrary("lua5.4"), .linkedLibrary(":libxxhash.a")]),
        // The archive, not the shared library: loading that would take time at each start, and few scripts need it.
        .target(name: "CIO", dependencies: ["CPlatform"], cSettings: [.define("_GNU_SOURCE")], linkerSettings: [.linkedLibrary("uv_a")]),
        .target(name: "CPlatform"),
        .target(name: "OpPlatform", dependencies: ["CPlatform"], swiftSettings: strictMemory),
        .target(name: "OpEngine", dependencies: ["CPlatform", "OpPlatform"], swiftSettings: strictMemory),
        .target(name: "OpEngineDispatch", dependencies: ["OpEngine"], swiftSettings: strict),
        // Archives, as libuv's. SQLite's needs the mathematical functions.
        .target(
            name: "CStore", linkerSettings: [":libsqlite3.a", ":libxxhash.a", ":libzstd.a", "m"].map { .linkedLibrary($0) }),
        .target(name: "OpStore", dependencies: ["CStore", "OpPlatform"], swiftSettings: strictMemory),
        // Loads its libraries when they are needed.
        .target(name: "CNats", linkerSettings: [.linkedLibrary(":libxxhash.a")]),
        .target(name: "OpCluster", dependencies: ["CNats", "OpPlatform"], swiftSettings: strictMemory),
        .target(
            name: "LuaBindings", dependencies: ["CIO", "CLua", "OpCluster", "OpEngine", "OpPlatform", "OpStore"],
            swiftSettings: strictMemory),
        .executableTarget(name: "opscript-worker", dependencies: ["LuaBindings"], swiftSettings: strictMemory),
        .target(name: "COpscript"),
        // The functions of opscript.h. All that it handles comes from C, so marking each expression as unsafe would say nothing.
        .target(name: "OpscriptLibrary", dependencies: ["COpscript", "LuaBindings", "OpEngine", "OpPlatform"], swiftSettings: strict),
        .target(name: "CText"),
        .target(name: "Reports", dependencies: ["CText", "LuaBindings"], swiftSettings: strictMemory),
        // The module for the interpreter `lua5.4`.
        .target(name: "COpscriptModule"),
        .target(
            name: "OpscriptModule", dependencies: ["COpscriptModule", "CLua", "LuaBindings", "Reports"], swiftSettings: strictMemory),
        // Archives, as libuv's: loading shared libraries would take time at each start. The C library's own functions take precedence over libbsd's.
        .target(
            name: "CTerminal", dependencies: ["CPlatform", "CText"],
            linkerSettings: [":libedit.a", "c", ":libbsd.a", ":libtinfo.a"].map { .linkedLibrary($0) }),
        .target(name: "CArguments"),
        // An archive for the same reason. `tls.c` says why it needs nothing else.
        .target(name: "CHTTP", linkerSettings: [.linkedLibrary(":libmicrohttpd.a")]),
        .executableTarget(
            name: "opscript",
            dependencies: ["CArguments", "CHTTP", "CTerminal", "CText", "LuaBindings", "OpCluster", "OpEngine", "OpPlatform", "Reports"],
            swiftSettings: strictMemory),
        .target(name: "TestSupport", dependencies: ["OpEngine"], path: "Tests/TestSupport", swiftSettings: strict),
        // Apart from `TestSupport`: programs that tests start use that one, and should not load the library `Testing`.
        .target(name: "TestLimits", dependencies: ["TestSupport"], path: "Tests/TestLimits", swiftSettings: strict),
        // Classes as tutorials print them, in the language mode that they were written in.
        .testTarget(
            name: "TutorialTests", dependencies: ["OpEngine", "TestLimits", "TestSupport"], packageAccess: false,
            swiftSettings: [.swiftLanguageMode(.v5)]),
        // Classes with the members and the ways of published ones, in the language mode that most of these were written in.
        .testTarget(
            name: "DropInTests", dependencies: ["OpEngine", "TestLimits", "TestSupport"], exclude: ["README.md"],
            packageAccess: false, swiftSettings: [.swiftLanguageMode(.v5)]),
        .testTarget(
            name: "OpPlatformTests", dependencies: ["CPlatform", "CTestSupport", "OpPlatform", "TestLimits", "TestSupport"],
            swiftSettings: strictMemory),
        .testTarget(
            name: "OpEngineTests", dependencies: ["OpEngine", "OpPlatform", "CPlatform", "CTestSupport", "TestLimits", "TestSupport"],
            swiftSettings: strictMemory),
        .testTarget(
            name: "OpEngineDispatchTests", dependencies: ["OpEngine", "OpEngineDispatch", "TestSupport"], swiftSettings: strict),
        // Faults below SQLite; builds with a store, and a process that runs one to be killed.
        .target(name: "CFaults", dependencies: ["CStore"], path: "Tests/CFaults"),
        .target(name: "StoreGraph", dependencies: ["OpStore", "TestSupport"], path: "Tests/StoreGraph", swiftSettings: strict),
        .executableTarget(
            name: "StoreHost", dependencies: ["CFaults", "OpStore", "StoreGraph"], path: "Tests/StoreHost", swiftSettings: strict),
        .testTarget(
            name: "OpStoreTests",
            dependencies: ["CFaults", "CStore", "CTestSupport", "OpStore", "StoreGraph", "StoreHost", "TestSupport"],
            swiftSettings: strict),
        // Servers, real and simulated, that tests start; and a program that measures and simulates clusters.
        .target(
            name: "ClusterSupport", dependencies: ["OpCluster", "TestSupport"], path: "Tests/ClusterSupport",
            swiftSettings: strict),
        .executableTarget(
            name: "ClusterBench", dependencies: ["ClusterSupport", "OpCluster"], path: "Tests/ClusterBench", swiftSettings: strict),
        .testTarget(
            name: "OpClusterTests", dependencies: ["ClusterSupport", "OpCluster", "OpPlatform", "TestSupport"], swiftSettings: strict),
        .target(name: "CTestSupport", path: "Tests/CTestSupport"),
        .testTarget(name: "CLuaTests", dependencies: ["CLua", "CTestSupport", "TestSupport"], swiftSettings: strictMemory),
        .testTarget(
            name: "LuaBindingsTests",
            dependencies: [
                "ClusterSupport", "CTestSupport", "CLua", "LuaBindings", "OpCluster", "OpEngine", "OpPlatform", "ProcessHost", "TestLimits",
                "TestSupport",
                "opscript-worker",
            ],
            swiftSettings: strictMemory),
        // The code of docs/embedding.md.
        .executableTarget(
            name: "EmbeddingGuide", dependencies: ["LuaBindings"], path: "Tests/EmbeddingGuide", swiftSettings: strict),
        // A host whose operations run in processes of its own executable.
        .executableTarget(name: "ProcessHost", dependencies: ["LuaBindings"], path: "Tests/ProcessHost", swiftSettings: strictMemory),
        .testTarget(
            name: "OpscriptTests",
            dependencies: ["ClusterSupport", "CTestSupport", "EmbeddingGuide", "OpCluster", "OpPlatform", "opscript", "TestSupport"],
            exclude: ["ClusterScripts", "Credentials", "Golden", "StockLua"],
            swiftSettings: strictMemory),
    ],
    cLanguageStandard: .c11
)

// Sanitizers watch the libraries. Their builds leave out what the tests of these do not need.
if Context.environment["OPSCRIPT_LIBRARIES_ONLY"] == "1" {
    let others: Set = [
        "CArguments", "CHTTP", "COpscript", "COpscriptModule", "CTerminal", "CText", "ClusterBench", "DropInTests", "EmbeddingGuide",
        "OpEngineDispatch", "OpEngineDispatchTests", "OpscriptLibrary", "OpscriptModule", "OpscriptTests", "Reports", "TutorialTests",
        "opscript",
    ]
    package.targets.removeAll { others.contains($0.name) }
    package.products.removeAll { others.contains($0.name) }
}
