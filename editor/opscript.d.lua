---@meta opscript
-- The module `opscript` for lua-language-server, which completes and checks scripts with it. Put this folder into the server's
-- `Lua.workspace.library`.

---How urgent an operation is among those that are ready in its queue. The integers -8, -4, 0, 4 and 8 are taken, too; others go to the
---nearest level towards normal.
---@alias opscript.QueuePriority "veryLow"|"low"|"normal"|"high"|"veryHigh"

---@alias opscript.QualityOfService "userInteractive"|"userInitiated"|"default"|"utility"|"background"

---What dependents do when an operation failed or was cancelled: run all the same, or be cancelled.
---@alias opscript.DependencyPolicy "finished"|"succeeded"

---@alias opscript.ErrorKind "error"|"timeout"|"memory"|"interrupted"|"dependency"

---@alias opscript.ObservationOption "old"|"new"|"initial"|"prior"

---The module: a global in every state that opscript makes, and what `require "opscript"` returns.
---@class opscript
---@field Operation opscript.Operation
---@field BlockOperation opscript.BlockOperation
---@field InvocationOperation opscript.InvocationOperation
---@field OperationQueue opscript.OperationQueue
opscript = {}

---Seconds of a clock that never goes back.
---@return number
function opscript.now() end

---Waits, and runs callbacks meanwhile. Ends at once when the operation that sleeps is cancelled.
---@param seconds number
function opscript.sleep(seconds) end

---Calls `f` once, in this state.
---@param seconds number
---@param f fun(timer: opscript.Timer)
---@return opscript.Timer
function opscript.after(seconds, f) end

---Calls `f` again and again, in this state.
---@param seconds number
---@param f fun(timer: opscript.Timer)
---@return opscript.Timer
function opscript.every(seconds, f) end

---Starts a program, without a shell. What starts it inside an operation is ended when that is cancelled.
---@param program opscript.ProcessOptions `{ program, argument, … }`, with options
---@return opscript.Process
function opscript.process(program) end

---Starts a command with `/bin/sh -c`.
---@param command string|opscript.ProcessOptions the command, or `{ command }` with options
---@return opscript.Process
function opscript.sh(command) end

---Runs `f` once in every worker's state, now and later ones, before its next operation, with the state's own globals.
---@param f fun()
function opscript.prelude(f) end

---What `f` would take along to another state: a record for each upvalue and global, and for what cannot be sent.
---@param f function
---@return opscript.Capture[]
function opscript.captures(f) end

---A function, or a method of an object, that runs once, in whichever state its queue runs it. Names that are not listed are the
---operation's own storage: values are copied in when they are assigned, and out when they are read.
---@class opscript.Operation
---@field current opscript.Operation? (of the class) the operation whose body is running in this state
---@field name string?
---@field isReady boolean assigning sets the script's own part of it
---@field isExecuting boolean
---@field isFinished boolean
---@field isCancelled boolean
---@field isAsynchronous boolean
---@field dependencies opscript.Operation[] a new array at each reading
---@field queuePriority opscript.QueuePriority|integer
---@field qualityOfService opscript.QualityOfService
---@field completionBlock fun(op: opscript.Operation)? called once, in the state that set it, when the operation has finished
---@field result any the first value that `main` returned
---@field results { n: integer, [integer]: any }? all of them
---@field error opscript.Error?
---@field dependencyPolicy opscript.DependencyPolicy
---@field memoryLimit integer? bytes that its body may hold
---@field timeout number? seconds of executing
---@field executionBlocks integer? of a BlockOperation: how many functions it has
---@field [string] any
local Operation = {}

---@class opscript.OperationOptions
---@field main? fun(op: opscript.Operation, ...: any): ...
---@field arguments? any[] what `main` gets after the operation
---@field name? string
---@field queuePriority? opscript.QueuePriority|integer
---@field qualityOfService? opscript.QualityOfService
---@field completionBlock? fun(op: opscript.Operation)
---@field dependencies? opscript.Operation[]
---@field dependencyPolicy? opscript.DependencyPolicy
---@field memoryLimit? integer
---@field timeout? number
---@field asynchronous? boolean whether it goes on after `main` has returned, until `finish` or `fail`

---@param main? opscript.OperationOptions|fun(op: opscript.Operation, ...: any): ...
---@param ... any what `main` gets after the operation
---@return opscript.Operation
function Operation.new(main, ...) end

---A class derived from this one. Give it `init`, `main`, and perhaps `start` (then it is asynchronous) and `cancel`.
---@generic T: opscript.Operation
---@param self T
---@param name string
---@return T
function Operation:subclass(name) end

---What a subclass does with the arguments of `new`.
---@param ... any
function Operation:init(...) end

---What a subclass does.
---@return any ...
function Operation:main() end

---@param class opscript.Operation
---@return boolean
function Operation:isKindOf(class) end

---Runs it here and now.
function Operation:start() end

---Sets `isCancelled`, which the body looks at; what sleeps or waits in it wakes.
function Operation:cancel() end

---Cancels it, and stops a body that does not look.
function Operation:interrupt() end

---Ends an asynchronous operation, with results.
---@param ... any
function Operation:finish(...) end

---Ends an asynchronous operation, with an error.
---@param err any
function Operation:fail(err) end

---@param op opscript.Operation
function Operation:addDependency(op) end

---@param op opscript.Operation
function Operation:removeDependency(op) end

---Waits, and runs callbacks and operations of the main queue meanwhile.
---@param timeout? number seconds
---@return boolean # whether it has finished
function Operation:waitUntilFinished(timeout) end

---Of a BlockOperation: one more function.
---@param f fun(op: opscript.Operation, ...: any): ...
---@param ... any
function Operation:addExecutionBlock(f, ...) end

---What keeps it from running, as a sentence and as a table; nil when nothing does.
---@return string?
---@return opscript.Blockage?
function Operation:why() end

---Calls `f` in this state after each change of a property, or of a stored name.
---@param keyPath string
---@param options opscript.ObservationOption[]
---@param f fun(op: opscript.Operation, change: opscript.Change)
---@return opscript.Observation
---@overload fun(self: opscript.Operation, keyPath: string, f: fun(op: opscript.Operation, change: opscript.Change)): opscript.Observation
function Operation:observe(keyPath, options, f) end

---Several functions that run concurrently; `results` has the first value of each.
---@class opscript.BlockOperation: opscript.Operation
local BlockOperation = {}

---@param f? fun(op: opscript.Operation, ...: any): ...
---@param ... any
---@return opscript.BlockOperation
function BlockOperation.new(f, ...) end

---Calls a method of an object.
---@class opscript.InvocationOperation: opscript.Operation
local InvocationOperation = {}

---@param object any
---@param method string
---@param ... any
---@return opscript.InvocationOperation
function InvocationOperation.new(object, method, ...) end

---@class opscript.OperationQueue
---@field main opscript.OperationQueue (of the class) runs its operations in the main state, as they are
---@field current opscript.OperationQueue? (of the class) the queue of what is running
---@field defaultMaxConcurrentOperationCount integer (of the class)
---@field name string?
---@field maxConcurrentOperationCount integer
---@field isSuspended boolean
---@field qualityOfService opscript.QualityOfService
---@field dependencyPolicy opscript.DependencyPolicy of operations that are added from now on
---@field operations opscript.Operation[]
---@field operationCount integer
---@field underlyingQueue nil the workers run its operations
---@field progress opscript.Progress
local OperationQueue = {}

---@class opscript.OperationQueueOptions
---@field name? string
---@field maxConcurrentOperationCount? integer
---@field qualityOfService? opscript.QualityOfService
---@field isSuspended? boolean
---@field dependencyPolicy? opscript.DependencyPolicy

---@class opscript.Progress
---@field totalUnitCount integer
---@field completedUnitCount integer
---@field fractionCompleted number

---@param options? string|opscript.OperationQueueOptions a name, or options
---@return opscript.OperationQueue
function OperationQueue.new(options) end

---@param op opscript.Operation|fun(op: opscript.Operation, ...: any): ...
---@param ... any what a function gets after the operation
---@return opscript.Operation
function OperationQueue:addOperation(op, ...) end

---@param list opscript.Operation[]
---@param wait? boolean
function OperationQueue:addOperations(list, wait) end

---Runs `f` when everything that was added before has finished, and before anything that is added later.
---@param f fun(op: opscript.Operation, ...: any): ...
---@param ... any
---@return opscript.Operation
function OperationQueue:addBarrierBlock(f, ...) end

function OperationQueue:cancelAllOperations() end

---@param timeout? number seconds
---@return boolean # whether all have finished
function OperationQueue:waitUntilAllOperationsAreFinished(timeout) end

---@param keyPath string
---@param options opscript.ObservationOption[]
---@param f fun(queue: opscript.OperationQueue, change: opscript.Change)
---@return opscript.Observation
---@overload fun(self: opscript.OperationQueue, keyPath: string, f: fun(queue: opscript.OperationQueue, change: opscript.Change)): opscript.Observation
function OperationQueue:observe(keyPath, options, f) end

---@class opscript.Error
---@field message string
---@field traceback string
---@field value any what was raised
---@field kind opscript.ErrorKind
---@field operation opscript.Operation?

---@class opscript.Change
---@field keyPath string
---@field new any
---@field old any
---@field isPrior boolean?

---What keeps an operation from running; only what applies is there.
---@class opscript.Blockage
---@field isInQueue false?
---@field unfinishedDependencies opscript.Operation[]?
---@field neverAdded opscript.Operation[]? those of them that are in no queue
---@field cycle opscript.Operation[]?
---@field isReadyByItself false?
---@field queue opscript.OperationQueue?
---@field isSuspended true?
---@field maxConcurrentOperationCount 0?
---@field occupiedBy opscript.Operation[]?
---@field barrier opscript.Operation?
---@field before opscript.Operation[]?

---@class opscript.Capture
---@field name string how it is reached
---@field kind "value"|"function"|"module"|"globals"|"operation"|"queue"|"class"|"object"
---@field type string
---@field size integer bytes
---@field of string? the function that uses it
---@field error string? why it cannot be sent

---@class opscript.Observation
---@field keyPath string
local Observation = {}

---Ends it. (That nobody holds the observation does not.)
function Observation:invalidate() end

---@class opscript.Timer
local Timer = {}

function Timer:cancel() end

---@class opscript.ProcessOptions
---@field [integer] string|number the program, and its arguments
---@field cwd? string
---@field env? table<string, string>
---@field input? string
---@field stdout? "capture"|"inherit"|"null"|string one of these, or a file's path
---@field stderr? "capture"|"inherit"|"null"|string
---@field timeout? number seconds
---@field onExit? fun(result: opscript.ProcessResult)

---@class opscript.ProcessResult
---@field status integer?
---@field signal string?
---@field stdout string?
---@field stderr string?
---@field timedOut true?

---@class opscript.Process
---@field pid integer
---@field isRunning boolean
---@field stdout string?
---@field stderr string?
local Process = {}

---Waits until it has ended, and its output has been read.
---@param seconds? number the longest time to wait; after it the result is nil
---@return opscript.ProcessResult?
function Process:wait(seconds) end

---@param signal? string|integer `"TERM"` unless given
function Process:kill(signal) end

return opscript
