import CPlatform

/// The arguments of the process, as `CommandLine.arguments`, also where /proc is not mounted.
public var processArguments: [String] {
    var arguments: [String] = []
    while let argument = unsafe cplatform_argument(Int32(arguments.count)) { arguments.append(unsafe String(cString: argument)) }
    return arguments
}
