"""Makes a failing random program smaller: the fewest steps, threads and features that still fail."""

import time


def ranges(numbers):
    """Numbers as storm's --drop takes them: 1,2,3,7 are "1-3,7"."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def fewest_steps(steps, fails):
    """The least N for which `fails(N)` is true, if more steps never help; else some N that fails."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle + 1
    return high


def fewest_of(items, fails, deadline):
    """A part of `items` that still fails and of which no single item can go (Zeller's ddmin); `fails` gets what is kept.
    After `deadline` (time.monotonic) it returns what it has."""
    kept, parts = list(items), 2
    while kept and time.monotonic() < deadline:
        size = max(1, -(-len(kept) // parts))
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size:]
            if time.monotonic() >= deadline:
                return kept
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept


def shrink(program, fails, seconds):
    """A smaller program that still fails. `program` is a dictionary: seed, steps, threads, streams, features (a list),
    dropped (a list). `fails(program)` runs one, several times if its failure is a matter of chance."""
    deadline = time.monotonic() + seconds
    best = dict(program)

    def still(**changes):
        return time.monotonic() < deadline and fails({**best, **changes})

    best["steps"] = fewest_steps(best["steps"], lambda steps: steps == best["steps"] or still(steps=steps))
    for name in ("threads", "streams"):
        for value in range(1, best[name]):
            if still(**{name: value}):
                best[name] = value
                break
    best["features"] = fewest_of(best["features"], lambda features: still(features=features), deadline)
    steps = [step for step in range(best["steps"]) if step not in best["dropped"]]
    everything = range(best["steps"])
    kept = fewest_of(
        steps, lambda some: still(dropped=[step for step in everything if step not in some]), deadline
    )
    best["dropped"] = [step for step in everything if step not in kept]
    return best
