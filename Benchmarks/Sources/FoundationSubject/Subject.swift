import Foundation
import Measuring

typealias Operation = Foundation.Operation
typealias BlockOperation = Foundation.BlockOperation
typealias OperationQueue = Foundation.OperationQueue

@main struct Subject {
    static func main() { measure(operationWorkloads) }
}
