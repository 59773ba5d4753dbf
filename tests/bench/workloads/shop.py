"""A shop's requests, some 0.35 s of CPU time: argv[1] is by which factor `rank` works longer.

argv[2]: how many requests are handled together.  With one, every function runs for less than a
period of the samples before the next one does, and is counted by chance alone.
"""

import json
import sys

FACTOR, TOGETHER = float(sys.argv[1]), int(sys.argv[2])
REQUESTS = 220


def parse(number):
    return json.loads(json.dumps([{"id": at, "words": f"a{number} b{at}"} for at in range(120)]))


def store(shelf, rows):
    for row in rows:
        for word in row["words"].split():
            shelf.setdefault(word, []).append(row["id"])


def letters(text):
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFF
    return value


def score(rows):
    return [letters(row["words"]) for row in rows]


def rank(scores):
    total = 0
    for at in range(int(6_500 * FACTOR)):
        total += at * at
    return sorted(scores)


def render(ranked):
    return "".join(f"<li>{value:05d}</li>" for value in ranked * 6)


def handle(shelf, numbers):
    requests = [parse(number) for number in numbers]
    for rows in requests:
        store(shelf, rows)
    scores = [score(rows) for rows in requests]
    ranked = [rank(each) for each in scores]
    return sum(len(render(each)) for each in ranked)


def main():
    shelf = {}
    print(sum(handle(shelf, range(at, at + TOGETHER)) for at in range(0, REQUESTS, TOGETHER)))


main()
