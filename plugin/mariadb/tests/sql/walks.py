"""HANDLER reads over indexes and rows, in random directions, with writes in between."""

import os
import random

chance = random.Random(int(os.environ.get("PROPERTY_SEED", "1")))
STEPS = 1500
print("CREATE TABLE w (id INT PRIMARY KEY, a INT, b INT NOT NULL, c VARCHAR(5), KEY a(a), UNIQUE b(b), KEY ab(a DESC, b), KEY c(c));")
print("INSERT INTO w SELECT seq * 2, IF(seq MOD 9 = 0, NULL, seq MOD 7), seq * 3, CONCAT('c', seq MOD 5) FROM seq_1_to_40;")
print("HANDLER w OPEN;")
for _ in range(STEPS):
    index = chance.choice(["`PRIMARY`", "a", "b", "ab", "c"])
    value = {"c": f"'c{chance.randrange(-1, 7)}'", "a": chance.randrange(-1, 9), "ab": chance.randrange(-1, 9),
             "b": chance.randrange(-3, 130), "`PRIMARY`": chance.randrange(-1, 90)}[index]
    kind = chance.randrange(40)
    if kind < 6:
        steps = [f"HANDLER w READ {index} {chance.choice(['FIRST', 'LAST'])}"]
    elif kind < 24:
        steps = [f"HANDLER w READ {index} {chance.choice(['=', '=', '=', '>=', '<=', '>', '<'])} ({value})"]
    elif kind < 26:
        steps = [f"DELETE FROM w WHERE id = {chance.randrange(90)}"]
    elif kind < 28:
        steps = [f"INSERT IGNORE INTO w VALUES ({chance.randrange(90)}, {chance.randrange(8)}, {chance.randrange(130)}, 'c{chance.randrange(6)}')"]
    elif kind < 29:
        steps = ["HANDLER w READ FIRST", "HANDLER w READ NEXT", "HANDLER w READ NEXT LIMIT 3"]
    else:
        steps = []
    # Rows with the same key come in the order of the primary key, so turning round must not matter.
    for _ in range(chance.randrange(6) if steps and "READ" in steps[0] and "READ FIRST" not in steps[0] and "READ NEXT" not in steps[0] else 0):
        steps.append(f"HANDLER w READ {index} {chance.choice(['NEXT', 'PREV'])}" + chance.choice(["", "", " LIMIT 2"]))
    for step in steps:
        print(step + ";")
print("HANDLER w CLOSE; CHECK TABLE w;")
