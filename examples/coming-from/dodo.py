from pathlib import Path

texts = sorted(Path("texts").glob("*.txt"))
counts = [f"counts/{text.stem}.count" for text in texts]


def task_count():
    for text, count in zip(texts, counts):
        yield {"name": text.stem, "file_dep": [text], "targets": [count], "actions": [f"wc -w < {text} > {count}"]}


def task_total():
    return {"file_dep": counts, "targets": ["total"], "actions": ["awk '{ sum += $1 } END { print sum }' counts/*.count > total"]}
