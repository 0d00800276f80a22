import Measuring
import OpEngine

typealias Operation = OpEngine.Operation
typealias BlockOperation = OpEngine.BlockOperation
typealias OperationQueue = OpEngine.OperationQueue

@main struct Subject {
    static func main() { measure(operationWorkloads.merging(engineWorkloads) { $1 }) }
}
