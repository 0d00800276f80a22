#!/usr/bin/env bash
# Sends scripts to a job server, hostile ones among them, and checks every answer: load.sh PORT [COUNT]
set -euo pipefail
port=$1 count=${2:-20000}
url=http://127.0.0.1:$port/run
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

fail() { echo "load.sh: $*" >&2; exit 1; }

# Hostile clients, until the others have finished.
hostile=(
  'while true do end'
  'local t = {} while true do t[#t + 1] = ("x"):rep(1e6) .. #t end'
  'local function f() return f() + 1 end return f()'
  'while true do pcall(error) end'
  'while true do print(("x"):rep(1000)) end'
  'for i = 1, 1e9 do opscript.OperationQueue.new():addOperation(function() while true do end end) end'
  'opscript.every(0.001, function() while true do end end) opscript.sleep(1000)'
  'error(setmetatable({}, { __tostring = function() while true do end end }))'
  'return string.rep("x", 1e10)'
  'this is no Lua'
)
(
  while [ ! -e "$directory/done" ]; do
    for script in "${hostile[@]}"; do curl -sS -m 20 --data-binary "$script" "$url" -o /dev/null || echo "$script" >> "$directory/lost"; done
  done
) &
attacker=$!
# Clients that send half of a request, and nothing more.
for _ in 1 2 3; do (exec 3<> "/dev/tcp/127.0.0.1/$port"; printf 'POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nreturn' >&3; cat <&3 > "$directory/half") & done

printf 'return 1' > "$directory/script"
ab -q -k -c 32 -n "$count" -p "$directory/script" "$url" > "$directory/report" || fail "ab failed"
touch "$directory/done"
wait "$attacker"

grep -q '^Failed requests: *0$' "$directory/report" || fail "some requests failed: $(grep Failed "$directory/report")"
grep -q 'Non-2xx' "$directory/report" && fail "some answers were refusals: $(grep Non-2xx "$directory/report")"
[ ! -e "$directory/lost" ] || fail "no answer to: $(head -1 "$directory/lost")"
[ "$(curl -sS --data-binary 'return 1' "$url")" = '{"result":1}' ] || fail "a wrong answer afterwards"
grep -E '^(Requests per second|  50%|  99%)' "$directory/report"
