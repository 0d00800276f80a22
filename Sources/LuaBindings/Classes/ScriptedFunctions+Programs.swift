extension ScriptedFunctions {
    /// The functions that run programs: `run`, `pipeline` and `quote`.
    static let programs: StaticString = #"""
        -- `opscript.quote(text)`.
        local function quote(text)
          if type(text) ~= "string" then error("bad argument #1 to 'quote' (string expected, got " .. type(text) .. ")", 3) end
          return "'" .. gsub(text, "'", "'\\''") .. "'"
        end

        -- What `run` raises. Local to no function, because errors travel with their metatable.
        local ProgramError = { __name = "ProgramError", __tostring = function(problem) return problem.message end }

        local longestText <const>, mostLines <const> = 2000, 12

        -- The last lines of what a program has written to stderr.
        local function ending(text)
          text = gsub(sub(text, -longestText), "%s+$", "")
          local start = #text + 1
          for _ = 1, mostLines do
            repeat start = start - 1 until start <= 1 or sub(text, start, start) == "\n"
          end
          return gsub(sub(text, start > 1 and start or 1), "^\n", "")
        end

        -- The set of the statuses that are no failures. `number` and `name` are those of the argument in messages.
        local function accepted(ok, number, name)
          local statuses = type(ok) == "table" and ok or { ok == nil and 0 or ok }
          local set = {}
          for _, status in ipairs(statuses) do
            if not tointeger(status) then
              error(("bad argument #%d to '%s' (ok must be an exit status or an array of these)"):format(number, name), 5)
            end
            set[tointeger(status)] = true
          end
          return set
        end

        -- The words of a command in a message.
        local function shown(command)
          local words = {}
          for _, word in ipairs(command) do
            for _, word in ipairs(type(word) == "table" and word or { word }) do
              word = tostring(word)
              words[#words + 1] = (word == "" or find(word, "[^%w_./:=@%%+,-]")) and quote(word) or word
            end
          end
          local text = concat(words, " ")
          return #text > 200 and sub(text, 1, 200) .. "…" or text
        end

        -- The options of `process` or `sh` in a command, the set of its statuses that are no failures, and its words. Level 4 is the caller.
        local function parse(command, number, name)
          local isShell = type(command) == "string"
          if not isShell and type(command) ~= "table" then
            error(("bad argument #%d to '%s' (a command or a table of a program and its arguments expected, got %s)"):format(
              number, name, type(command)), 4)
          end
          local options, ok = {}, nil
          if isShell then
            options[1] = command
          else
            ok = command.ok
            for key, value in pairs(command) do if key ~= "ok" then options[key] = value end end
            if options.onExit ~= nil then
              error(("bad argument #%d to '%s' (onExit is for opscript.process: %s waits)"):format(number, name, name), 4)
            end
          end
          for _, stream in ipairs { "stdin", "stdout", "stderr" } do
            if options[stream] == "pipe" then
              error(("bad argument #%d to '%s' (%s = 'pipe' is for opscript.process: %s waits)"):format(number, name, stream, name), 4)
            end
          end
          return options, accepted(ok, number, name), isShell and command or shown(command), isShell and sh or process
        end

        -- Waits for a program. Returns whether its end is no failure, its result, and why the wait has failed.
        local function await(process, statuses)
          local hasEnded, result = pcall(process.wait, process, nil, true)
          if hasEnded and result then return statuses[result.status], result end
          return false, nil, result or "the wait for it has ended"
        end

        -- The error of a program. `problem` is why the wait has failed, if it has. `isMerged`: stdout has what the program wrote to stderr.
        local function failure(text, process, result, problem, isMerged)
          -- Each look at a process makes another copy of its output.
          local stdout, stderr = (result or process).stdout, (result or process).stderr
          if type(stdout) ~= "string" then stdout = nil end
          local failure = { command = text, stdout = stdout, stderr = stderr }
          if not result then
            failure.message = problem
          else
            failure.status, failure.signal = result.status, result.signal
            local cause = result.signal and "killed by SIG" .. result.signal or result.status and "exit status " .. result.status or "ended"
            local said = isMerged and stdout or stderr
            local words = said and (find(said, "%S") and ending(said) or "it wrote nothing to stderr")
            failure.message = text .. ": " .. cause .. (words and ": " .. words or "")
          end
          return setmetatable(failure, ProgramError)
        end

        local function withoutLastNewline(output)
          return output and sub(output, -1) == "\n" and sub(output, 1, -2) or output
        end

        -- `opscript.run(command)`.
        local function run(command)
          local options, statuses, text, start = parse(command, 1, "run")
          local isStarted, process = pcall(start, options)
          if not isStarted then error(process, 3) end
          local isGood, result, problem = await(process, statuses)
          if not isGood then error(failure(text, process, result, problem, options.stderr == "stdout"), 0) end
          return withoutLastNewline(result.stdout)
        end

        -- `opscript.pipeline(command, …)`.
        local function pipeline(...)
          local commands, members, texts = { ... }, {}, {}
          local count = #commands
          if count == 0 then error("bad argument #1 to 'pipeline' (a command expected, got no value)", 3) end
          for i = 1, count do
            local options, statuses, text, start = parse(commands[i], i, "pipeline")
            members[i], texts[i] = { options = options, statuses = statuses, text = text, start = start }, text
            if i < count and options.stdout ~= nil then
              error(("bad argument #%d to 'pipeline' (stdout goes to the next program)"):format(i), 3)
            elseif i > 1 and (options.stdin ~= nil or options.input ~= nil) then
              error(("bad argument #%d to 'pipeline' (stdin is the output of the program before)"):format(i), 3)
            end
          end
          for i, member in ipairs(members) do
            if i < count then member.options.stdout = "pipe" end
            if i > 1 then member.options.stdin = members[i - 1].process end
            local isStarted, process = pcall(member.start, member.options)
            if not isStarted then
              for j = 1, i - 1 do members[j].process:kill "KILL" end
              error(process, 3)
            end
            member.process = process
          end
          -- SIGPIPE tells a program that its reader has ended. It is a failure only if the reader has failed, and then that is the cause.
          -- A shell reports the signal of its last program as a status.
          local culprit, isStopped
          for i = count, 1, -1 do
            local member = members[i]
            local isLeft = isStopped and member.process.isRunning and member.process:kill()
            member.isGood, member.result, member.problem = await(member.process, member.statuses)
            isStopped = isStopped or member.problem
            local result = i < count and member.result or {}
            isLeft = isLeft or result.signal == "PIPE" or member.start == sh and result.status == 141
            if not member.isGood and not isLeft then culprit = i end
          end
          if culprit then
            local member = members[culprit]
            local isMerged = member.options.stderr == "stdout"
            local problem = failure(member.text, member.process, member.result, member.problem, isMerged)
            problem.member, problem.command = culprit, concat(texts, " | ")
            if count > 1 then problem.message = problem.command .. ": " .. problem.message end
            error(problem, 0)
          end
          return withoutLastNewline(members[count].result.stdout)
        end

        local functions = ...
        functions.run, functions.pipeline, functions.quote = run, pipeline, quote
        """#
}
