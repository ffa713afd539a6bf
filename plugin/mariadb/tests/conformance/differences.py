"""Classifies the differences between two results of a test."""

import re
import subprocess
import tempfile

# From best to worst.
CLASSES = ["passed", "skipped", "plan", "order", "words", "error", "rows", "hang", "crash"]

STATEMENT = re.compile(
    r"\s*(\(*\s*select|explain|analyze|desc|describe|show|insert|update|delete|replace|create|alter|drop|set|call|execute|prepare|with|"
    r"flush|check|checksum|optimize|repair|truncate|rename|lock|unlock|begin|start|commit|rollback|savepoint|handler|load|do|use|"
    r"grant|revoke|xa|values|table|deallocate|kill|connect|connection|disconnect)\b", re.IGNORECASE)
PLAN = re.compile(
    r"\s*(explain|analyze|desc\b|show\s+(session\s+|local\s+|global\s+)?status|show\s+(index|indexes|keys)|optimize)"
    r"|optimizer_trace|last_query_cost|session_status|global_status|table_rows|data_length|cardinality|statistics|_stats\b",
    re.IGNORECASE)
WORDS = re.compile(
    r"\s*(show|check|checksum|repair)\b|information_schema|performance_schema|@@", re.IGNORECASE)
ENGINES = re.compile(r"\b(innodb|frond)\b", re.IGNORECASE)


# The engine's name, files of a table, and a test that the reference runs at another level
# (tree.py).
NEUTRAL = [(ENGINES, "ENGINE"), (re.compile(r"^\S+\.ibd\n", re.MULTILINE), ""), (re.compile("READ UNCOMMITTED"), "READ COMMITTED"),
           (re.compile(r"^(?:Warnings:\n)?Warning\t138\t.*WITH CONSISTENT SNAPSHOT is ignored.*\n", re.MULTILINE), "")]


def neutral(text):
    for pattern, other in NEUTRAL:
        text = pattern.sub(other, text)
    return text


def statements(lines):
    """For each line, the statement to which it belongs."""
    of, current, is_open = [], "", False
    for line in lines:
        if is_open:
            current += " " + line
        elif STATEMENT.match(line) and "\t" not in line:
            current, is_open = line, True
        if line.rstrip().endswith((";", "|", "//", "$$")):
            is_open = False
        of.append(current)
    # A statement of several lines is complete only at its end.
    for i in range(len(of) - 2, -1, -1):
        if of[i + 1].startswith(of[i]) and of[i]:
            of[i] = of[i + 1]
    return of


def kind(statement, reference, other):
    errors = [line for line in reference + other if line.startswith("ERROR ")]
    if errors:
        return "error"
    if PLAN.search(statement):
        return "plan"
    if sorted(reference) == sorted(other):
        return "order"
    if WORDS.search(statement):
        return "words"
    both = [line for line in reference + other if not re.match(r"(Warning|Note|Error)\t\d+\t|Warnings:|Level\tCode", line)]
    if not both:
        return "words"
    return "rows"


def changes(reference, other):
    """Ranges of lines that differ. Results have up to a million lines, for which difflib takes minutes."""
    with tempfile.NamedTemporaryFile("w", errors="surrogateescape") as was, tempfile.NamedTemporaryFile("w", errors="surrogateescape") as now:
        was.write("".join(line + "\n" for line in reference))
        now.write("".join(line + "\n" for line in other))
        was.flush()
        now.flush()
        done = subprocess.run(["diff", "-a", "--speed-large-files", was.name, now.name], stdout=subprocess.PIPE, check=False)
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        match = re.fullmatch(r"(\d+)(?:,(\d+))?([acd])(\d+)(?:,(\d+))?", line)
        if match:
            first, last, what, other_first, other_last = match.groups()
            a, c = int(first), int(other_first)
            yield (a if what == "a" else a - 1, int(last or first), c if what == "d" else c - 1, int(other_last or other_first))


def between(reference, other):
    """(class, statement, lines of the reference, lines of the other) of each difference."""
    reference, other = neutral(reference).split("\n"), neutral(other).split("\n")
    of = statements(reference)
    blocks = {}
    for a, b, c, d in changes(reference, other):
        # If lines exist only in the other result, the line before them tells the statement.
        where = a if a < b else a - 1
        statement = of[where] if 0 <= where < len(of) else ""
        # Several differing parts of one answer are one difference.
        start = where
        while start > 0 and of[start - 1] == statement:
            start -= 1
        ours = blocks.setdefault((start, statement), ([], []))
        ours[0].extend(reference[a:b])
        ours[1].extend(other[c:d])
    return [(kind(statement, was, now), statement, was, now) for (_, statement), (was, now) in blocks.items()]


def worst(classes):
    return max(classes, key=CLASSES.index, default="passed")
