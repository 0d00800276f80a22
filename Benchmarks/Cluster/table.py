# Reads `SUBJECT WORKLOAD JSON` lines of all rounds, and prints the medians, the ratios of ours to the peers, and the goals.
import json
import statistics
import sys

SUBJECTS = ("opscript", "local", "dask", "celery")

# Title, workload, figure, unit, whether more is better.
ROWS = (
    ("empty operations", "empty", "rate", "/s", True),
    ("one empty operation, p50", "latency", "p50", "ms", False),
    ("one empty operation, p99", "latency", "p99", "ms", False),
    ("bodies of 20 ms, busy", "busy", "ideal", "%", True),
    ("bodies of 20 ms, sleeping", "sleep", "ideal", "%", True),
    ("large argument", "argument", "rate", "MB/s", True),
)


def read(lines):
    figures = {}
    for line in lines:
        subject, workload, values = line.split(" ", 2)
        for name, value in json.loads(values).items():
            figures.setdefault((subject, workload, name), []).append(value)
    return figures


def text(value, unit):
    if value is None:
        return "-"
    if unit == "%":
        return f"{value * 100:.1f} %"
    return f"{value:,.{0 if value >= 100 else 3 if unit == 'ms' else 1}f} {unit}"


def main():
    figures = read(sys.stdin)

    def median(subject, workload, name):
        values = figures.get((subject, workload, name))
        return statistics.median(values) if values else None

    def ratio(one, other):
        return one / other if one is not None and other is not None else None

    line = "%-27s" + "%14s" * len(SUBJECTS) + "%12s" * 2
    print(line % ("median", *SUBJECTS, "to dask", "to celery"))
    for title, workload, name, unit, more in ROWS:
        values = {subject: median(subject, workload, name) for subject in SUBJECTS}
        ratios = [ratio(values["opscript"], values[peer]) for peer in ("dask", "celery")]
        better = [f"{(r if more else 1 / r):.2f}x" if r else "-" for r in ratios]
        print(line % (title, *(text(values[subject], unit) for subject in SUBJECTS), *better))
    loopback = median("loopback", "argument", "rate")
    print((line % ("TCP over the loopback", text(loopback, "MB/s"), *[""] * 5)).rstrip())
    print("to dask, to celery: how many times as good ours is. Percentages are of the speed that two workers can have.\n")

    def goal(what, value, unit, least, best, more=True):
        if value is None:
            reached = "not measured"
        else:
            as_good = (lambda limit: value >= limit) if more else (lambda limit: value <= limit)
            reached = "best" if best is not None and as_good(best) else "reached" if as_good(least) else "missed"
        limits = text(least, unit) + (f" (best {text(best, unit)})" if best is not None else "")
        print("%-42s%14s   %s %-28s%s" % (what, text(value, unit), ">=" if more else "<=", limits, reached))

    def compared(workload, name, other):
        return ratio(median("opscript", workload, name), other)

    goal("goal: empty operations", median("opscript", "empty", "rate"), "/s", 5000, 20000)
    goal("goal: one empty operation, p50", median("opscript", "latency", "p50"), "ms", 1.5, 0.5, more=False)
    goal("goal: busy bodies, of the local speed", compared("busy", "ideal", median("local", "busy", "ideal")), "%", 0.95, None)
    goal("goal: sleeping bodies, of the ideal", median("opscript", "sleep", "ideal"), "%", 0.95, None)
    goal("goal: large argument, of the loopback", compared("argument", "rate", loopback), "%", 0.1, None)


main()
