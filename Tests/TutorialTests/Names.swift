import OpEngine

// A module that imports Foundation as well says once whose names it means: its own declarations win over imported ones.

typealias Operation = OpEngine.Operation
typealias BlockOperation = OpEngine.BlockOperation
typealias OperationQueue = OpEngine.OperationQueue
typealias QualityOfService = OpEngine.QualityOfService
