import OpEngine

// A module that also imports Foundation says once whose names it means: its own declarations take precedence over imported ones.

typealias Operation = OpEngine.Operation
typealias BlockOperation = OpEngine.BlockOperation
typealias OperationQueue = OpEngine.OperationQueue
typealias QualityOfService = OpEngine.QualityOfService
