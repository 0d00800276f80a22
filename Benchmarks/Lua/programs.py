# The peers of programs.lua: `python3 programs.py xargs|pool|lua5.4|find WORKLOAD COUNT` prints the value and the processor time of each unit of work.
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

LINES = "local n = 0 for _ in io.popen(arg[1]):lines() do n = n + 1 end assert(n > tonumber(arg[2]))"
COMMAND = "yes 'a line of a log, with a time, a place and some words' | head -c %d000000"


def run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def with_xargs(commands):
    lines = "".join(" ".join(command[1:]) + "\n" for command in commands)
    arguments = ["-a", "/dev/stdin", "-P2", "-n1", commands[0][0]]
    subprocess.run(["xargs"] + arguments, input=lines.encode(), check=True, stdout=subprocess.PIPE)


def with_pool(commands):
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for _ in pool.map(run, commands):
            pass


def elapsed(f, *arguments):
    start = time.perf_counter()
    f(*arguments)
    return time.perf_counter() - start


if __name__ == "__main__":
    peer, workload, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    all_commands = {"xargs": with_xargs, "pool": with_pool}
    if workload == "R1" and peer in all_commands:
        # xargs runs its program once for each line.
        value = elapsed(all_commands[peer], [["true", str(i)] for i in range(count)]) / count * 1e6
    elif workload == "R2" and peer in all_commands:
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{i}" for i in range(count)]
            for i, name in enumerate(files):
                with open(name, "w") as file:
                    file.write(f"{i:064}" * 4096)
            value = elapsed(all_commands[peer], [["sha256sum", name] for name in files]) / count * 1e6
    elif workload == "R3" and peer == "lua5.4":
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(LINES)
            script.flush()
            value = elapsed(run, ["lua5.4", script.name, COMMAND % count, str(count * 10000)]) / count * 1e3
    elif workload == "R5" and peer == "find":
        with tempfile.TemporaryDirectory() as folder:
            for i in range(count):
                os.makedirs(f"{folder}/{i % 100}", exist_ok=True)
                open(f"{folder}/{i % 100}/{i}", "w").close()
            value = elapsed(run, ["find", folder, "-printf", "%p %y %s\n"]) / count * 1e6
    else:
        sys.exit(3)
    times = os.times()
    print(value, (times.user + times.system) / count * 1e9)
