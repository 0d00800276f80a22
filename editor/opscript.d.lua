---@meta opscript
-- The module `opscript` for lua-language-server, which completes and checks scripts with it. Add this folder to the server's
-- `Lua.workspace.library`.

---The priority of an operation among the ready operations of its queue. The integers -8, -4, 0, 4 and 8 are accepted, too; any other
---integer becomes the nearest level towards normal.
---@alias opscript.QueuePriority "veryLow"|"low"|"normal"|"high"|"veryHigh"

---@alias opscript.QualityOfService "userInteractive"|"userInitiated"|"default"|"utility"|"background"

---Whether an operation runs when a dependency failed or was cancelled: "finished" runs it, "succeeded" cancels it.
---@alias opscript.DependencyPolicy "finished"|"succeeded"

---@alias opscript.ErrorKind "error"|"timeout"|"memory"|"instructions"|"interrupted"|"dependency"|"condition"|"process"|"lost"

---@alias opscript.ObservationOption "old"|"new"|"initial"|"prior"

---The module: a global in every state that opscript makes, and the result of `require "opscript"`.
---@class opscript
---@field Operation opscript.Operation
---@field BlockOperation opscript.BlockOperation
---@field InvocationOperation opscript.InvocationOperation
---@field GroupOperation opscript.GroupOperation
---@field OperationQueue opscript.OperationQueue
---@field fs opscript.fs files and folders; absent where a host allows no files
---@field json opscript.json
opscript = {}

---The time of a monotonic clock, in seconds.
---@return number
function opscript.now() end

---Sleeps, and runs callbacks during that time. Returns at once when the operation that sleeps is cancelled.
---@param seconds number
function opscript.sleep(seconds) end

---Calls `f` once after `seconds`, in this state.
---@param seconds number
---@param f fun(timer: opscript.Timer)
---@return opscript.Timer
function opscript.after(seconds, f) end

---Calls `f` every `seconds`, in this state.
---@param seconds number
---@param f fun(timer: opscript.Timer)
---@return opscript.Timer
function opscript.every(seconds, f) end

---Runs a program without a shell, or a command with `/bin/sh -c`, and waits for its end. A program that fails is an error: an
---`opscript.ProgramError`.
---@param command string|opscript.RunOptions the command, or `{ program, argument, … }` with options
---@return string? # what it wrote to stdout, without the last newline; nil if that was not captured
function opscript.run(command) end

---Runs several commands, each with the output of the one before as its standard input, and waits for their ends. Fails if one of them fails.
---@param command string|opscript.RunOptions
---@param ... string|opscript.RunOptions
---@return string? # what the last one wrote to stdout, without the last newline
function opscript.pipeline(command, ...) end

---The text as one word of a shell command.
---@param text string
---@return string
function opscript.quote(text) end

---Makes an HTTP request and waits for the whole response. A status that is no success, or a request that fails, is an error: an
---`opscript.FetchError`.
---@param url string begins with `http://` or `https://`
---@param options? opscript.FetchOptions
---@return opscript.Response
function opscript.fetch(url, options) end

---Starts a program without a shell. Cancelling an operation ends the programs that it started.
---@param program opscript.ProcessOptions `{ program, argument, … }`, with options
---@return opscript.Process
function opscript.process(program) end

---Starts a command with `/bin/sh -c`.
---@param command string|opscript.ProcessOptions the command, or `{ command }` with options
---@return opscript.Process
function opscript.sh(command) end

---Runs `f` once in every worker's state, present and future, before its next operation and with the state's own globals.
---@param f fun()
function opscript.prelude(f) end

---The values that `f` would take along to another state: a record for each upvalue and global, and for each value that cannot be sent.
---@param f function
---@return opscript.Capture[] # with the field `size`, the bytes of all of them and of `f`
function opscript.captures(f) end

---The number of workers, which is the number of operations that compute at once.
---@return integer
function opscript.workerCount() end

---Waits until one of the operations has finished. Returns the first finished one of the list; nil if the time ran out, or if the waiting
---operation was cancelled. With another outcome, waits until one has ended so, or all have finished.
---@param operations opscript.Operation[]
---@param timeout? number seconds
---@param outcome? "finished"|"succeeded"|"failed"
---@return opscript.Operation?
function opscript.waitForAny(operations, timeout, outcome) end

---Waits for all. Returns the first result of each under its key. If one fails, cancels the others and raises its error.
---@param operations table<any, opscript.Operation>
---@return table<any, any>
function opscript.all(operations) end

---Waits for the first that succeeds, and cancels the others.
---@param operations table<any, opscript.Operation>
---@return any ... # its results
function opscript.race(operations) end

---Waits for all. Returns the end of each under its key.
---@param operations table<any, opscript.Operation>
---@return table<any, { status: "succeeded"|"failed"|"cancelled", result: any, results: table?, error: opscript.Error? }>
function opscript.settle(operations) end

---The lines of a file, one at a time, without their ends. The file is closed after the last one, or when the loop is left.
---@param path string
---@return fun(): string?
function opscript.lines(path) end

---Sets the amount of each resource that operations may need. Without an argument, returns the amounts.
---@param amounts? table<string, integer|string> integers, or sizes such as "8G"
---@return table<string, integer>?
function opscript.resources(amounts) end

---Makes a channel: a queue of values between senders and receivers in any states.
---@param options? opscript.ChannelOptions
---@return opscript.Channel
function opscript.channel(options) end

---Uses the first of several channels that is ready, in turn if several are. A channel stands for a receive, `{ channel, value, … }` for a send.
---@param alternatives table<any, opscript.Channel|any[]> under any keys but `timeout`, the longest wait in seconds
---@return any which # the key of the alternative, or `"timeout"`
---@return any ... # the received values, or nil and `"closed"`; after a send, true
function opscript.select(alternatives) end

---Receives from several channels, in turn if several have messages, until all are closed and empty.
---@param channels table<any, opscript.Channel> by name
---@return fun(): any, any # the name of the channel, and the values of the message
---@overload fun(channel: opscript.Channel, ...: opscript.Channel): fun(): any, any
function opscript.merge(channels) end

---An immutable copy of a table that every state reads without copying it. Plain values and frozen tables are returned as they are.
---@generic T
---@param value T
---@return T
function opscript.freeze(value) end

---An ordinary copy of a frozen table; any other value as it is.
---@generic T
---@param value T
---@return T
function opscript.thaw(value) end

---Whether the value is a frozen table.
---@param value any
---@return boolean
function opscript.isFrozen(value) end

---A function, or a method of an object, that runs once, in the state that its queue chooses. Names that are not listed here are the
---operation's own storage: a value is copied in when it is assigned, and out when it is read.
---@class opscript.Operation
---@field current opscript.Operation? (of the class) the operation whose body is running in this state
---@field name string?
---@field isReady boolean assigning sets the script's own condition
---@field isExecuting boolean
---@field isFinished boolean
---@field isCancelled boolean
---@field isAsynchronous boolean
---@field dependencies opscript.Operation[] a new array at each reading
---@field queuePriority opscript.QueuePriority|integer
---@field qualityOfService opscript.QualityOfService
---@field completionBlock fun(op: opscript.Operation)? called once, in the state that set it, when the operation has finished
---@field result any the first value that `main` returned
---@field results { n: integer, [integer]: any }? all values that `main` returned
---@field error opscript.Error?
---@field dependencyPolicy opscript.DependencyPolicy
---@field memoryLimit integer? the most bytes that its body may hold
---@field timeout number? the most seconds that it may execute
---@field executionBlocks integer? the number of functions of a BlockOperation
---@field exclusive string[]|string? keys that no two executing operations share
---@field needs table<string, integer|string>? the amount of each resource that it takes while it executes
---@field retry opscript.RetryOptions|integer? how it is tried again after a failure; a script that reads it gets no `when`
---@field attempt integer the number of the attempt that runs or has run last, from 1; 0 before the first
---@field isSkipped boolean whether its body did not run, because the store had its work
---@field attempts opscript.Error[] the errors of the latest 100 attempts that were followed by another
---@field group opscript.GroupOperation? the group that it is a member of, until it has finished
---@field [string] any
local Operation = {}

---@class opscript.OperationOptions
---@field main? fun(op: opscript.Operation, ...: any): ...
---@field arguments? any[] the arguments of `main` after the operation
---@field name? string
---@field queuePriority? opscript.QueuePriority|integer
---@field qualityOfService? opscript.QualityOfService
---@field completionBlock? fun(op: opscript.Operation)
---@field dependencies? opscript.Operation[]
---@field dependencyPolicy? opscript.DependencyPolicy
---@field memoryLimit? integer
---@field timeout? number
---@field asynchronous? boolean whether it executes after `main` has returned, until `finish` or `fail`
---@field exclusive? string|string[]
---@field needs? table<string, integer|string>
---@field retry? opscript.RetryOptions|integer
---@field memoize? boolean whether it asks the store for its results, without naming files
---@field inputs? string|string[] files that it reads: paths and patterns
---@field outputs? string|string[] files that it makes
---@field depfile? string a file in the format of `cc -MF` with further inputs, which it writes
---@field env? string|string[] environment variables on which its work depends
---@field version? any a further value that its work depends on
---@field atomic? boolean whether the body must write each output under the name that `output` returns
---@field keepOnFailure? boolean whether its outputs stay where they are when it fails
---@field conditions? (opscript.Condition|{ [1]: "fileExists", [2]: string })[]

---@class opscript.RetryOptions
---@field attempts integer the maximum, including the first
---@field delay? number the pause after the first attempt, in seconds
---@field backoff? number the factor from each pause to the next
---@field maxDelay? number the longest pause, in seconds
---@field jitter? boolean whether each pause is shortened at random, to half of it at least
---@field when? fun(err: opscript.Error): boolean whether an error is worth another attempt

---@alias opscript.Condition "noFailedDependencies"|"noCancelledDependencies"|"fileExists"|fun(op:opscript.Operation):boolean,string?

---@param main? opscript.OperationOptions|fun(op: opscript.Operation, ...: any): ...
---@param ... any the arguments of `main` after the operation
---@return opscript.Operation
function Operation.new(main, ...) end

---A class derived from this one. Give it `init`, `main`, and perhaps `start` (then it is asynchronous) and `cancel`. A class of groups has
---`init`, which may add members, and perhaps `cancel`.
---@generic T: opscript.Operation
---@param self T
---@param name string
---@return T
function Operation:subclass(name) end

---Override it to receive the arguments of `new`.
---@param ... any
function Operation:init(...) end

---Override it with the work of the operation.
---@return any ...
function Operation:main() end

---@param class opscript.Operation
---@return boolean
function Operation:isKindOf(class) end

---Runs the operation at once, in this state.
function Operation:start() end

---Sets `isCancelled`, which the body should check. Wakes the body when it sleeps or waits.
function Operation:cancel() end

---Cancels the operation, and stops a body that does not check `isCancelled`.
function Operation:interrupt() end

---Ends an asynchronous operation with results.
---@param ... any
function Operation:finish(...) end

---Ends an asynchronous operation with an error.
---@param err any
function Operation:fail(err) end

---@param op opscript.Operation
function Operation:addDependency(op) end

---@param op opscript.Operation
function Operation:removeDependency(op) end

---Waits until the operation has finished, and returns its results. Raises its error again if it has failed.
---@param timeout? number seconds
---@return any ...
function Operation:get(timeout) end

---Waits until the operation has finished. Meanwhile runs callbacks and operations of the main queue.
---@param timeout? number seconds
---@return boolean # whether it has finished
function Operation:waitUntilFinished(timeout) end

---Adds a function to a BlockOperation.
---@param f fun(op: opscript.Operation, ...: any): ...
---@param ... any
function Operation:addExecutionBlock(f, ...) end

---Adds a condition, which is asked when the dependencies have finished. If it does not hold, the operation is cancelled.
---@param condition opscript.Condition a function that returns whether it holds, and why not; or a name
---@param argument? string the path of "fileExists"
function Operation:addCondition(condition, argument) end

---Adds a member to a GroupOperation, also while that runs.
---@param operation opscript.Operation|fun(op: opscript.Operation, ...: any): ...
---@param ... any arguments of a function
---@return opscript.Operation
function Operation:addOperation(operation, ...) end

---Adds members to a GroupOperation, all of them or none.
---@param operations (opscript.Operation|fun(op: opscript.Operation): ...)[]
function Operation:addOperations(operations) end

---The reason why the operation does not run, as a sentence and as a table; nil without a reason.
---@return string?
---@return opscript.Blockage?
function Operation:why() end

---The reason why the body has run although the operation asks the store: `input 'a.h' changed`. Nil if the store had the work, or was not asked.
---@return string?
function Operation:whyRun() end

---In the body: a temporary name in the folder of `path`. The file gets its own name when the body has succeeded, and is removed otherwise.
---@param path? string one of the declared outputs, if the operation has any; may be missing if that is the only one
---@return string
function Operation:output(path) end

---Calls `f` in this state after each change of a property or a stored name.
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

---An operation that calls a method of an object.
---@class opscript.InvocationOperation: opscript.Operation
local InvocationOperation = {}

---@param object any
---@param method string
---@param ... any
---@return opscript.InvocationOperation
function InvocationOperation.new(object, method, ...) end

---An operation that consists of others: it starts them when it starts, and finishes when all of them have finished. `results` has the first value
---of each, in the order in which they were added.
---@class opscript.GroupOperation: opscript.Operation
---@field operations opscript.Operation[] the members, including those that have finished
---@field maxConcurrentOperationCount integer
---@field isSuspended boolean whether it starts no members
---@field progress opscript.Progress
local GroupOperation = {}

---@class opscript.GroupOperationOptions
---@field operations? (opscript.Operation|fun(op: opscript.Operation): ...)[] the first members
---@field maxConcurrentOperationCount? integer
---@field isSuspended? boolean
---@field name? string
---@field queuePriority? opscript.QueuePriority|integer
---@field qualityOfService? opscript.QualityOfService
---@field completionBlock? fun(op: opscript.Operation)
---@field dependencies? opscript.Operation[] they hold all members back
---@field dependencyPolicy? opscript.DependencyPolicy
---@field timeout? number seconds; the members are stopped then
---@field exclusive? string|string[]
---@field needs? table<string, integer|string>
---@field conditions? (opscript.Condition|{ [1]: string, [2]: string })[]

---@param options? opscript.GroupOperationOptions
---@return opscript.GroupOperation
function GroupOperation.new(options) end

---@class opscript.OperationQueue
---@field main opscript.OperationQueue (of the class) runs its functions in the main state, without copying them
---@field current opscript.OperationQueue? (of the class) the queue of the running operation
---@field defaultMaxConcurrentOperationCount integer (of the class)
---@field name string?
---@field maxConcurrentOperationCount integer
---@field maxPendingOperationCount integer? the most operations that wait to be started; a further addition waits
---@field rateLimit opscript.RateLimit? the limit of starts in each period
---@field isSuspended boolean
---@field qualityOfService opscript.QualityOfService
---@field dependencyPolicy opscript.DependencyPolicy given to operations that are added from now on
---@field operations opscript.Operation[]
---@field operationCount integer
---@field underlyingQueue nil always nil, because workers run the operations
---@field progress opscript.Progress
local OperationQueue = {}

---@class opscript.MapOptions
---@field inFlight? integer the number of operations that are in the queue at once
---@field ordered? boolean false for results in the order of their arrival
---@field onError? "raise"|"skip"|"collect"|fun(error: opscript.Error, key: any, input: any): any the effect of errors of `f`; not in `reduce`
---@field name? string the operations' name
---@field retry? opscript.RetryOptions|integer of each input, as of an operation
---@field timeout? number of each input
---@field memoize? boolean of each input
---@field needs? table<string, integer|string> of each input
---@field exclusive? string|string[] of each input
---@field initial? any the first value that `reduce` combines

---@class opscript.OperationQueueOptions
---@field name? string
---@field maxConcurrentOperationCount? integer
---@field maxPendingOperationCount? integer
---@field rateLimit? opscript.RateLimit
---@field qualityOfService? opscript.QualityOfService
---@field isSuspended? boolean
---@field dependencyPolicy? opscript.DependencyPolicy
---@field cluster? string|boolean the URL of a cluster's server; true for the cluster of `--cluster`, false for none
---@field delivery? "atLeastOnce"|"atMostOnce" on a cluster: whether an operation whose worker is lost runs again
---@field maxDeliveries? integer on a cluster: the number of workers that may be lost with an operation before it fails

---@class opscript.RateLimit
---@field count integer starts in each period
---@field seconds? number the length of a period; 1 by default
---@field burst? integer starts that may follow one another at once after a pause; `count` by default

---@class opscript.Progress
---@field totalUnitCount integer
---@field completedUnitCount integer
---@field fractionCompleted number

---@param options? string|opscript.OperationQueueOptions a name, or options
---@return opscript.OperationQueue
function OperationQueue.new(options) end

---@param op opscript.Operation|fun(op: opscript.Operation, ...: any): ...
---@param ... any the arguments of a function after the operation
---@return opscript.Operation
function OperationQueue:addOperation(op, ...) end

---Adds an operation with this function, waits for it, and returns its results. Raises its error again if it fails.
---@param main fun(...: any): ...
---@param ... any arguments
---@return any ...
function OperationQueue:run(main, ...) end

---@param list opscript.Operation[]
---@param wait? boolean
function OperationQueue:addOperations(list, wait) end

---Runs `f` after all operations that were added before it, and before any that is added later.
---@param f fun(op: opscript.Operation, ...: any): ...
---@param ... any
---@return opscript.Operation
function OperationQueue:addBarrierBlock(f, ...) end

function OperationQueue:cancelAllOperations() end

---@param timeout? number seconds
---@return boolean # whether all have finished
function OperationQueue:waitUntilAllOperationsAreFinished(timeout) end

---Calls `f` for each input in operations of this queue. Iterates over the index of each input, the first result, and with
---`onError = "collect"` the error. A table without element 1 gives its keys and values to `f`, and the keys to the loop.
---@param f fun(input: any): any
---@param list table|fun(): any a table, or an iterator, such as `opscript.lines(path)` or another map
---@param options? opscript.MapOptions
---@return fun(): any, any, opscript.Error?
function OperationQueue:map(f, list, options) end

---Like `map`, for functions without results.
---@param f fun(input: any)
---@param list table|fun(): any
---@param options? opscript.MapOptions
---@return integer # the number of inputs
---@return table<integer, opscript.Error> # with `onError = "collect"` the errors, by the index of the input
function OperationQueue:forEach(f, list, options) end

---Combines the results of `f` for all inputs: `combine(combine(r1, r2), r3)` and so on. Any neighbours may be combined first, on any worker.
---@param f fun(input: any): any
---@param combine fun(left: any, right: any): any
---@param list table|fun(): any
---@param options? opscript.MapOptions
---@return any # `options.initial` if there were no inputs
function OperationQueue:reduce(f, combine, list, options) end

---@param keyPath string
---@param options opscript.ObservationOption[]
---@param f fun(queue: opscript.OperationQueue, change: opscript.Change)
---@return opscript.Observation
---@overload fun(self: opscript.OperationQueue, keyPath: string, f: fun(queue: opscript.OperationQueue, change: opscript.Change)): opscript.Observation
function OperationQueue:observe(keyPath, options, f) end

---@class opscript.Error
---@field message string
---@field traceback string
---@field value any the raised value
---@field kind opscript.ErrorKind
---@field operation opscript.Operation?
---@field member opscript.Operation? of a group's error: the member that has failed

---@class opscript.Change
---@field keyPath string
---@field new any
---@field old any
---@field isPrior boolean?

---The reasons why an operation does not run. Only the fields that apply are present.
---@class opscript.Blockage
---@field isInQueue false?
---@field unfinishedDependencies opscript.Operation[]?
---@field neverAdded opscript.Operation[]? the unfinished dependencies that are in no queue
---@field cycle opscript.Operation[]?
---@field isReadyByItself false?
---@field queue opscript.OperationQueue?
---@field isSuspended true?
---@field maxConcurrentOperationCount 0?
---@field occupiedBy opscript.Operation[]?
---@field barrier opscript.Operation?
---@field before opscript.Operation[]?
---@field exclusive string? the key that another operation has
---@field resource string? the resource with too little left
---@field nextAttempt integer? the number of the attempt that follows a pause
---@field secondsToNextStart number?
---@field waits string? the event that the body of an executing operation waits for
---@field group opscript.GroupOperation? the group that has not started

---@class opscript.Capture
---@field name string the path by which it is reached
---@field kind "value"|"function"|"module"|"globals"|"operation"|"queue"|"class"|"object"
---@field type string
---@field size integer bytes
---@field of string? the function that uses it
---@field from string? of a function, where it is defined; of a module, the file that workers load
---@field error string? why it cannot be sent

---@class opscript.Observation
---@field keyPath string
local Observation = {}

---Ends the observation. An observation without references continues.
function Observation:invalidate() end

---@class opscript.Timer
local Timer = {}

function Timer:cancel() end

---@class opscript.ChannelOptions
---@field capacity? number the most messages that wait: 100 by default, `math.huge` for any number
---@field name? string

---A queue of values. `for value in channel do` receives until the channel is closed and empty; `#channel` is the number of values that wait.
---@class opscript.Channel
---@field name string?
---@field capacity number
---@field count integer
---@field isClosed boolean
---@operator call: any
---@operator len: integer
local Channel = {}

---Sends the values together, as soon as there is room. The first must not be nil.
---@param ... any
---@return true
function Channel:send(...) end

---Sends the values, unless the channel is full.
---@param ... any
---@return boolean isSent
function Channel:trySend(...) end

---Sends the values if there is room within so many seconds.
---@param seconds number
---@param ... any
---@return boolean isSent
function Channel:sendWithin(seconds, ...) end

---Waits for the next values. Returns nil and the reason, `"closed"`, `"timeout"` or `"cancelled"`, if there are none.
---@param seconds? number
---@return any ...
function Channel:receive(seconds) end

---The next values; nil and `"empty"` or `"closed"` if there are none.
---@return any ...
function Channel:tryReceive() end

---Closes the channel: receivers get the waiting messages, and `send` raises an error.
function Channel:close() end

---@class opscript.ProcessOptions
---@field [integer] string|number|(string|number)[] the program, and its arguments
---@field cwd? string
---@field env? table<string, string>
---@field input? string
---@field stdin? "pipe"|"inherit"|"null"|string|opscript.Process one of these, a file's path, or a process with `stdout = "pipe"`
---@field stdout? "capture"|"inherit"|"null"|"pipe"|string|table one of these, a file's path, or `{ path, append = true }`
---@field stderr? "capture"|"inherit"|"null"|"pipe"|"stdout"|string|table
---@field label? boolean|string before each line of inherited output; true for the operation's name
---@field terminal? boolean whether the program has the terminal
---@field timeout? number seconds
---@field grace? number seconds from one signal to the next when the program is ended; 2 by default
---@field captureLimit? integer the bytes that each captured output may have; 64 MB by default
---@field slots? integer the places that the program has among the running operations: 1 by default, 0 for a program that mostly waits
---@field onExit? fun(result: opscript.ProcessResult)
---@field onLine? fun(line: string) gets each line of stdout

---@class opscript.RunOptions: opscript.ProcessOptions
---@field ok? integer|integer[] the exit statuses that are no failures; 0 by default

---@class opscript.ProgramError
---@field command string
---@field status integer?
---@field signal string?
---@field stdout string?
---@field stderr string?
---@field message string
---@field member integer? of a pipeline: the number of the program that has failed

---@class opscript.FetchOptions
---@field method? string "GET" by default, or "POST" with a body
---@field headers? table<string, string|integer>
---@field body? string
---@field output? string the path of a file that gets the body of a response with a status of 2xx
---@field timeout? number seconds for the whole, with all attempts
---@field connectTimeout? number seconds to connect; 30 by default
---@field retries? integer how often a request that fails is repeated, if it can be repeated without harm; 0 by default
---@field captureLimit? integer the bytes that a body in memory may have; 64 MB by default
---@field cafile? string the path of a file with the certificates to trust, in place of those of the system
---@field netrc? boolean whether `~/.netrc` has the credentials
---@field ok? integer|integer[]|fun(response: opscript.Response):boolean other statuses that are no failures, or a function that decides

---@class opscript.Response
---@field status integer
---@field headers table<string, string> by their names in lower case
---@field body string? nil if it is in the file
---@field url string the address after all redirects

---@class opscript.FetchError
---@field message string
---@field method string
---@field status integer? nil if there was no response
---@field headers table<string, string>
---@field body string?
---@field url string?

---@class opscript.ProcessResult
---@field status integer?
---@field signal string?
---@field stdout string?
---@field stderr string?
---@field timedOut true?

---Our end of a pipe to a program.
---@class opscript.Stream
local Stream = {}

---Reads as `file:read` does. Waits until the program has written enough, or has closed the pipe.
---@param ... integer|"l"|"L"|"a"|"n"
---@return string|number|nil ...
function Stream:read(...) end

---@param ... integer|"l"|"L"|"a"|"n"
---@return fun(): string|number|nil ...
function Stream:lines(...) end

---Closes the pipe: a program that writes to it ends by SIGPIPE.
function Stream:close() end

---@class opscript.Process
---@field pid integer
---@field isRunning boolean
---@field stdout string|opscript.Stream|nil the captured output, after the end; a stream with `stdout = "pipe"`
---@field stderr string|opscript.Stream|nil
local Process = {}

---Reads stdout as `file:read` does; needs `stdout = "pipe"`.
---@param ... integer|"l"|"L"|"a"|"n"
---@return string|number|nil ...
function Process:read(...) end

---@param ... integer|"l"|"L"|"a"|"n"
---@return fun(): string|number|nil ...
function Process:lines(...) end

---Writes to stdin, and waits while the pipe is full; needs `stdin = "pipe"`.
---@param ... string|integer
---@return opscript.Process
function Process:write(...) end

---Closes stdin: the program sees the end of its input.
function Process:closeInput() end

---Waits until the process has ended and its output has been read.
---@param seconds? number the longest time to wait; after that time the result is nil
---@return opscript.ProcessResult?
function Process:wait(seconds) end

---@param signal? string|integer `"TERM"` by default
function Process:kill(signal) end

---@class opscript.FileStatus
---@field type "file"|"directory"|"link"|"fifo"|"socket"|"device"
---@field size integer bytes
---@field mode integer the permission bits
---@field modified number seconds, as of `os.time()`
---@field accessed number
---@field user integer
---@field group integer
---@field device integer
---@field inode integer
---@field links integer

---@class opscript.WalkOptions
---@field match? string a pattern of the paths below the folder, as in `inputs` of an operation: "**/*.c"
---@field hidden? boolean whether names that begin with a dot count, too
---@field follow? boolean whether links to folders are followed

---Files and folders. A function that fails returns nil, a message with the path, and the number of the system's error.
---@class opscript.fs
---@field path opscript.fs.path
local fs = {}

---The entries below a folder, in the order of their names. Raises an error if a folder cannot be read.
---@param folder string
---@param options? opscript.WalkOptions
---@return fun(): string, "file"|"directory"|"link"|"fifo"|"socket"|"device", integer # the path, the type, and the size in bytes
function fs.walk(folder, options) end

---The files whose paths match a pattern, as `inputs` of an operation would have them.
---@param pattern string
---@return string[]
function fs.glob(pattern) end

---@param path string
---@param options? { follow: boolean } `follow = false` is for a link itself
---@return opscript.FileStatus?, string? message, integer? code
function fs.stat(path, options) end

---@param path string
---@return boolean?, string? message, integer? code
function fs.exists(path) end

---The contents of a file.
---@param path string
---@return string?, string? message, integer? code
function fs.read(path) end

---Writes a file, or replaces its contents: other programs see the old or the new contents, never a part of them.
---@param path string
---@param contents string
---@return true?, string? message, integer? code
function fs.write(path, contents) end

---Makes a folder, and those above it.
---@param path string
---@return true?, string? message, integer? code
function fs.mkdir(path) end

---Removes a file, a link, or a folder with its contents. Follows no link.
---@param path string
---@return true?, string? message, integer? code
function fs.remove(path) end

---Copies a file or a tree, with times and modes. The copy gets its name when it is whole.
---@param from string
---@param to string the name of the copy; a file is replaced
---@return true?, string? message, integer? code
function fs.copy(from, to) end

---Gives a file or a tree another name, on another file system, too.
---@param from string
---@param to string
---@return true?, string? message, integer? code
function fs.move(from, to) end

---@param target string
---@param path string the link
---@return true?, string? message, integer? code
function fs.symlink(target, path) end

---@param path string
---@return string? target, string? message, integer? code
function fs.readlink(path) end

---Makes a folder that is removed when the running function of the operation has ended; outside of operations, when the run ends.
---@return string? path, string? message, integer? code
function fs.tempdir() end

---Makes an empty file that is removed as the folder of `tempdir` is.
---@return string? path, string? message, integer? code
function fs.tempfile() end

---@class opscript.fs.path
local path = {}

---@param ... string an absolute one replaces those before
---@return string
function path.join(...) end

---The path as an absolute one, without `.` and `..`.
---@param path string
---@return string
function path.absolute(path) end

---@param path string
---@param folder? string the working directory by default
---@return string # the way from the folder to the path
function path.relative(path, folder) end

---@param path string
---@return string folder, string name, string extension with its dot
function path.split(path) end

---@class opscript.json
---@field null any the value of `null`, the same in all operations
---@field emptyArray table an array without elements; do not change it
local json = {}

---The value of a JSON text. Raises an error with the line and the column.
---@param text string
---@param options? { frozen: boolean } whether the result is a frozen value
---@return any
function json.decode(text, options) end

---The JSON text of a value. Raises an error that names what JSON does not have.
---@param value any
---@param options? { pretty: boolean } whether lines are indented, and keys sorted
---@return string
function json.encode(value, options) end

---Marks a table as an array, which it then is without elements, too.
---@param table? table a new one by default
---@return table
function json.array(table) end

return opscript
