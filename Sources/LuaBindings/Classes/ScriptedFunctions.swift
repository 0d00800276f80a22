import CLua

/// The functions of queues and of the module that are written in Lua: here `map`, `forEach`, `reduce` and `lines`.
///
/// A state compiles them when a script calls the first of them (`CLua/Calls/scripted.c`, which lists the globals that they may use).
enum ScriptedFunctions {
    /// Fields of the module.
    enum Function: String, Member {
        case lines, all, race, settle, merge, run, pipeline, quote, fetch
    }

    /// Methods of queues.
    enum Method: String, Member {
        case map, forEach, reduce, run
    }

    /// The description of these functions for C. Made once and never freed.
    static var description: clua_script {
        let functions = unsafe Function.table
        let methods = unsafe Method.table
        let texts = [literals, source, programs, results, channels, requests]
        let sources = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: texts.count)
        for (index, text) in texts.enumerated() {
            unsafe sources[index] = UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
        }
        return unsafe clua_script(
            sources: sources, source_count: texts.count, functions: functions.start, function_count: functions.count,
            kind: ObjectKind.queue.rawValue, methods: methods.start, method_count: methods.count)
    }

    /// The functions for queues and files.
    private static let source: StaticString = #"""
        local literal = (...).literal
        -- Local, because the function that is sent must not take the globals along.
        local now, setmetatable = now, setmetatable

        -- The seconds that a batch of inputs should take, and those after which it gives back the inputs that it has not begun.
        local batchTime <const>, longestTime <const> = 0.001, 0.01

        -- MARK: on a worker

        -- The results of a batch. If an error ends the batch, its operation keeps the results.
        local Part = {
          __close = function(part)
            if not part.isWhole then part.op.doneBefore = { results = part.results, count = part.count } end
          end,
        }

        -- The body of a batch's operation: calls `f` for each of `count` inputs. Returns the results, or with `combine` a single one, the number of
        -- inputs that it has processed, and the seconds that this took.
        local function runBatch(op, f, inputs, count, keepsResults, combine)
          local start = now()
          local results = {}
          local part <close> = setmetatable({ op = op, results = results, count = 0 }, Part)
          for i = 1, count do
            local result = f(inputs[i])
            if not combine then
              if keepsResults then results[i] = result end
            elseif i == 1 then
              results[1] = result
            else
              results[1] = combine(results[1], result)
            end
            part.count = i
            if now() - start > longestTime then break end
          end
          part.isWhole = true
          return results, part.count, now() - start
        end

        -- The body of an operation with options of its own, which has a single input.
        local function runOne(_, f, input, keepsResult)
          local result = f(input)
          if keepsResult then return result end
        end

        -- The function of a map over a table with named keys. Its inputs are pairs of a key and a value.
        local function ofPairs(f)
          return function(pair) return f(pair[1], pair[2]) end
        end

        -- The body of an operation that stands for an input that cannot be sent.
        local function raise(_, message) error(message, 0) end

        -- MARK: inputs

        -- For each iterator that this file has made: the function that closes it, and whether its values follow an index.
        local streams = setmetatable({}, { __mode = "k" })

        local Closer = { __close = function(closer) closer.close() end }

        -- The four values of a generic `for`.
        local function loop(iterator, isIndexed, close)
          streams[iterator] = { isIndexed = isIndexed, close = close }
          return iterator, nil, nil, setmetatable({ close = close }, Closer)
        end

        -- The list of inputs and the options of `map`. After a list that is the first of the values of a generic `for`, as in
        -- `queue:map(f, ipairs(t))`, there are no options but the other values.
        local function given(list, options, ...)
          if type(list) ~= "function" or select("#", ...) == 0 or streams[list] or rawequal(list, next) then return list, options end
          local state, control, closing = options, ...
          local isIndexed = rawequal(list, (ipairs {}))
          local function close()
            local closed <close> = closing
            closing = nil
          end
          local function read()
            local first, second = list(state, control)
            control = first
            if first == nil then close() end
            if isIndexed then return second end
            return first
          end
          streams[read] = { isIndexed = false, close = close }
          return read, nil
        end

        -- A function that puts at most `count` inputs into `inputs`, with their number as `inputs.n`, and returns whether there may be more.
        local function reader(list)
          if type(list) == "table" then
            local taken, length = 0, #list
            return function(inputs, count)
              for i = 1, min(count, length - taken) do
                inputs[i] = list[taken + 1]
                taken, inputs.n = taken + 1, i
              end
              return taken < length
            end
          end
          local stream = streams[list]
          if stream and stream.isIndexed then
            return function(inputs, count)
              for i = 1, count do
                local index, input, problem = list()
                if index == nil then return false end
                if problem then error(problem.value or problem.message, 0) end
                inputs[i] = input
                inputs.n = i
              end
              return true
            end
          end
          return function(inputs, count)
            for i = 1, count do
              local input = list()
              if input == nil then return false end
              inputs[i] = input
              inputs.n = i
            end
            return true
          end
        end

        -- MARK: batches

        -- A map under way. Its batches are in the order of their inputs. Each batch has `first`, the index of its first input, `inputs`, `count`,
        -- and once it is in the queue its operation `op`.
        local Map = {}
        Map.__index = Map

        -- Puts `batch` into the queue.
        function Map:submit(batch)
          local op, own = nil, self.own
          if own then
            own.arguments = { self.f, batch.inputs[1], self.keepsResults, n = 3 }
            op = Operation.new(own)
          else
            op = Operation.new(runBatch, self.f, batch.inputs, batch.count, self.keepsResults, self.combine)
            op.name = self.name
          end
          local isSent, message = pcall(self.queue.addOperation, self.queue, op)
          if not isSent then
            -- One of the inputs cannot be sent. Find out which.
            if batch.count > 1 then
              self.size = 1
              return
            end
            op = self.queue:addOperation(raise, tostring(message))
          end
          batch.op = op
          self.queued = self.queued + 1
        end

        -- Puts the next batch into the queue: inputs that an earlier batch has left, or new ones. Returns false if there is no room or no input.
        function Map:advance()
          if self.queued >= self.inFlight then return false end
          local batches = self.batches
          if self.queued < #batches then
            for position, batch in ipairs(batches) do
              if not batch.op then
                if batch.count > self.size then
                  local rest = batch.count - self.size
                  insert(batches, position + 1,
                    { first = batch.first + self.size, count = rest, inputs = move(batch.inputs, self.size + 1, batch.count, 1, {}) })
                  batch.inputs, batch.count = move(batch.inputs, 1, self.size, 1, {}), self.size
                end
                self:submit(batch)
                return true
              end
            end
          end
          if not self.hasInputs then return false end
          local inputs, start = { n = 0 }, now()
          local isRead, hasMore = pcall(self.read, inputs, self.size)
          self.hasInputs = isRead and hasMore
          -- The map returns the results of the inputs before the error first.
          if not isRead then self.problem, self.hasProblem = hasMore, true end
          local count = inputs.n
          if count == 0 then return false end
          self.readTime = (now() - start) / count
          local batch = { first = self.taken + 1, inputs = inputs, count = count }
          inputs.n = nil
          self.taken = self.taken + count
          batches[#batches + 1] = batch
          self:submit(batch)
          return true
        end

        -- The position of the first batch that has finished; nil if there is none, or if the map is ordered and another batch precedes it.
        function Map:finished()
          for position, batch in ipairs(self.batches) do
            if batch.op and batch.op.isFinished then return position end
            if self.isOrdered then return nil end
          end
        end

        -- Removes a batch that has finished. Returns it, its results, the number of their inputs, and the failure of the next input, if it failed.
        function Map:settle(position)
          local batch = remove(self.batches, position)
          self.queued = self.queued - 1
          local op, results, done = batch.op, {}, 0
          local failure = op.error
          if failure then
            local part = op.doneBefore
            if part then
              results, done = part.results, part.count
            elseif batch.count > 1 and failure.kind == "error" then
              -- One of the results cannot be sent. Find out which.
              self.size, failure = 1, nil
            end
          elseif op.isCancelled then
            error("the operations of '" .. self.name .. "' were cancelled", 0)
          elseif self.own then
            results, done = { op.result }, 1
          else
            local returned = op.results
            local seconds = returned[3]
            results, done = returned[1], returned[2]
            -- Batches of the same time, whether they wait for inputs or compute.
            self.size = max(1, min(4 * self.size, batchTime // max(seconds / done, self.readTime, 1e-9) | 0))
          end
          local left = done + (failure and 1 or 0)
          if left < batch.count then
            insert(self.batches, position,
              { first = batch.first + left, count = batch.count - left, inputs = move(batch.inputs, left + 1, batch.count, 1, {}) })
          end
          return batch, results, done, failure
        end

        -- Waits until a batch has finished, and settles it. Returns nil at the end.
        function Map:nextBatch()
          while true do
            -- One new batch for each finished one keeps the workers busy, and slow inputs delay a result by at most one batch.
            local hasAdvanced = self:advance()
            local position = self:finished()
            if position then return self:settle(position) end
            if not hasAdvanced then
              if self.queued == 0 then
                local problem, hasProblem = self.problem, self.hasProblem
                self:close()
                if hasProblem then error(problem, 0) end
                return nil
              end
              local operations = {}
              for _, batch in ipairs(self.batches) do
                if batch.op then
                  operations[#operations + 1] = batch.op
                  if self.isOrdered then break end
                end
              end
              local isWoken, first = pcall(waitForAny, operations)
              if not isWoken then error(first, 0) end
              if not first then error("the operation that waits for '" .. self.name .. "' was cancelled", 0) end
            end
          end
        end

        local function readError(op) return op.error end

        local function readErrorLater(op) op.completionBlock = readError end

        -- Cancels the other operations. The errors of those that execute count as read, because no code can ask for them.
        function Map:close()
          self.hasInputs, self.hasProblem = false, false
          for _, batch in ipairs(self.batches) do
            if batch.op then batch.op:cancel() end
          end
          for _, batch in ipairs(self.batches) do
            if batch.op and not pcall(readErrorLater, batch.op) then readError(batch.op) end
          end
          self.batches, self.queued = {}, 0
          local stream = streams[self.list]
          if stream then stream.close() end
        end

        -- The key and the value of an input of a batch, after `done` others.
        function Map:input(batch, done)
          local input = batch.inputs[done + 1]
          if self.isNamed then return input[1], input[2] end
          return batch.first + done, input
        end

        -- Raises the value of `failure`, or its message if it has no value. Its text names the input.
        function Map:fail(failure, key, input)
          self:close()
          local value = failure.value
          if value == nil then value = failure.message end
          local place = (" (input %s: %s)"):format(literal(key), literal(input))
          if type(value) == "string" then
            value = value .. place
          elseif type(value) == "table" and type(rawget(value, "message")) == "string" then
            value.message = value.message .. place
          end
          error(value, 0)
        end

        -- Treats the failure of an input of a batch, after `done` others, as `onError` says. Returns the key, the result and the failure for the
        -- loop; nil to leave the input out.
        function Map:handle(failure, batch, done)
          local key, input = self:input(batch, done)
          local onError = self.onError
          if onError == "raise" then self:fail(failure, key, input) end
          if onError == "collect" then return key, nil, failure end
          if onError ~= "skip" then return key, (onError(failure, key, input)) end
        end

        -- MARK: functions of queues

        -- Level 5 is the caller of the method. Levels 1 to 4 are this function, newMap, the method and its stub in C.
        local function refuse(number, method, message) error(("bad argument #%d to '%s' (%s)"):format(number, method, message), 5) end

        -- For each option a function that returns whether its value is valid, and what it must be.
        local checks = {
          inFlight = function(value) return tointeger(value) and value >= 1, "an integer of at least 1" end,
          ordered = function(value) return type(value) == "boolean", "true or false" end,
          onError = function(value)
            return value == "raise" or value == "skip" or value == "collect" or type(value) == "function", '"raise", "skip", "collect" or a function'
          end,
          name = function(value) return type(value) == "string", "a string" end,
          initial = function() return true end,
        }
        local onlyReduce <const>, notReduce <const> = { initial = true }, { onError = true }
        -- The options of `Operation.new` that each input gets, in an operation of its own.
        local isOwn <const> = { retry = true, timeout = true, memoize = true, needs = true, exclusive = true }

        -- The pairs of a table with keys but without an element 1; nil for others.
        local function pairsOf(list)
          if type(list) ~= "table" or #list > 0 or getmetatable(list) then return nil end
          local found, hasNames = {}, false
          for key, value in next, list do
            found[#found + 1] = { key, value }
            -- The `n` of `table.pack(nil)` makes no name.
            hasNames = hasNames or key ~= "n" and not (list.n and tointeger(key))
          end
          return hasNames and found or nil
        end

        local function newMap(method, queue, f, combine, list, options)
          local position = combine and 3 or 2
          if type(queue) ~= "userdata" then error("call '" .. method .. "' with ':', as in queue:" .. method .. "(...)", 4) end
          if type(f) ~= "function" then refuse(1, method, "function expected, got " .. type(f)) end
          if type(list) ~= "table" and type(list) ~= "function" then
            refuse(position, method, "table or iterator function expected, got " .. type(list))
          end
          if rawequal(list, next) then
            refuse(position, method, "'pairs' gives keys and values: give the table itself")
          end
          if options == nil then options = {} end
          if type(options) ~= "table" then refuse(position + 1, method, "table of options expected, got " .. type(options)) end
          local own
          for key, value in pairs(options) do
            local check = checks[key]
            if isOwn[key] then
              own = own or { main = runOne, name = options.name or method }
              own[key] = value
            elseif not check or (method == "reduce" and notReduce or onlyReduce)[key] then
              refuse(position + 1, method, "unknown option '" .. tostring(key) .. "'")
            else
              local isValid, expected = check(value)
              if not isValid then refuse(position + 1, method, key .. " must be " .. expected) end
            end
          end
          if own then
            local isValid, problem = pcall(Operation.new, own)
            if not isValid then refuse(position + 1, method, gsub(tostring(problem), "^bad argument #1 to '[^']*' %((.*)%)$", "%1")) end
          end
          if not rawequal(queue, OperationQueue.main) then
            for _, sent in ipairs { f, combine } do
              for _, capture in ipairs(captures(sent)) do
                if capture.error then error(capture.error, 4) end
              end
            end
          end
          local named = pairsOf(list)
          if named then list, f = named, ofPairs(f) end
          return setmetatable({
            queue = queue, f = f, combine = combine, list = list, isNamed = named ~= nil, own = own, read = reader(list),
            name = options.name or method, keepsResults = method ~= "forEach",
            inFlight = options.inFlight or max(4 * workerCount(), 2 * min(queue.maxConcurrentOperationCount, 8192)),
            isOrdered = options.ordered ~= false, onError = options.onError or "raise",
            batches = {}, queued = 0, size = 1, taken = 0, readTime = 0, hasInputs = true,
          }, Map)
        end

        local function map(queue, f, ...)
          local map = newMap("map", queue, f, nil, given(...))
          local isNamed = map.isNamed
          local batch, before, at, count, results, failure = nil, 0, 0, 0, nil, nil
          return loop(function()
            while at == count do
              if failure then
                local key, result, problem = map:handle(failure, batch, count)
                failure = nil
                if key ~= nil then return key, result, problem end
              end
              batch, results, count, failure = map:nextBatch()
              if not batch then
                count, at = 0, 0
                return nil
              end
              before, at = batch.first - 1, 0
            end
            at = at + 1
            if isNamed then return batch.inputs[at][1], results[at] end
            return before + at, results[at]
          end, true, function() map:close() end)
        end

        local function forEach(queue, f, ...)
          local map <close> = newMap("forEach", queue, f, nil, given(...))
          local total, failures = 0, {}
          for batch, _, count, failure in map.nextBatch, map do
            total = total + count
            if failure then
              local key, _, problem = map:handle(failure, batch, count)
              if problem then failures[key] = problem end
              total = total + 1
            end
          end
          return total, failures
        end

        local function reduce(queue, f, combine, ...)
          local list, options = given(...)
          if type(combine) ~= "function" then error(("bad argument #2 to 'reduce' (function expected, got %s)"):format(type(combine)), 3) end
          local map <close> = newMap("reduce", queue, f, combine, list, options)
          local total = options and options.initial
          local hasTotal = total ~= nil
          for batch, results, count, failure in map.nextBatch, map do
            if failure then map:handle(failure, batch, count) end
            -- A batch that is tried again has no result yet.
            if count == 0 then goto continue end
            if hasTotal then total = combine(total, results[1]) else total, hasTotal = results[1], true end
            ::continue::
          end
          return total
        end

        Map.__close = Map.close

        -- MARK: lines

        -- `opscript.lines(path)`.
        local function lines(path)
          if type(path) ~= "string" then error("bad argument #1 to 'lines' (string expected, got " .. type(path) .. ")", 3) end
          if not open then error("files are not available here", 3) end
          local file, problem = open(path)
          if not file then error("cannot read " .. problem, 3) end
          local function close()
            if file then file:close() end
            file = nil
          end
          return loop(function()
            if not file then return nil end
            local line, problem = file:read()
            if line then return line end
            close()
            if problem then error("cannot read " .. path .. ": " .. problem, 0) end
          end, false, close)
        end

        local functions = ...
        functions.lines = lines
        functions["queue:map"], functions["queue:forEach"], functions["queue:reduce"] = map, forEach, reduce
        """#
}
