"""All attacks on many models, and LiRA against one sample at a time.

    python tests/benchmarks/many_models.py [--models 256] [--samples 50000] [--classes 100]

Makes a table of losses, every sample in half of the models. S, P, R, LiRA (four kinds) and RMIA
(two) attack every model by the others; D and L one model by all the others. The scores of one
attack are let go before the next. Then online LiRA on one target by
ready logit-scaled losses, against a loop that calls `scipy.stats.norm` for each of the first
`--slow` samples; the two must agree.
Wall-clock and processor seconds of the process; what the attacks add to its memory at most,
the table included, as a multiple of the table. One JSON line.
"""

from __future__ import annotations

import numpy as np
import scipy.stats
from figures import Clock, middle, options, over, peak_mib, show, spread, timed

from canary.membership.attacks import with_many_models
from canary.membership.many import attack_models
from canary.signals.signal_table import SignalTable

MANY = tuple(with_many_models())


def made(rng, models, samples, classes):
    """Losses of models; members have lower ones. No copy beside the result is made."""
    member = np.empty((models, samples), np.bool_)
    for at in range(0, samples, 1000):
        part = slice(at, at + 1000)
        member[:, part] = np.argsort(rng.random(member[:, part].shape), axis=0) < models // 2
    ease = rng.normal(1, 2, samples)
    loss = np.empty((models, samples))
    for row in range(models):
        loss[row] = np.logaddexp(0, -(ease + 1.5 * member[row] + rng.normal(0, 1, samples)))
    return SignalTable({"loss": loss}, member, rng.integers(0, classes, samples), classes)


def logits(loss):
    return -loss - np.log(-np.expm1(-loss))


def one_by_one(table, samples):
    """Online LiRA on model 0, as one writes it down."""
    found = []
    signal, member = table.signal("logit-confidence"), table.member
    for z in range(samples):
        values, inside = signal[1:, z], member[1:, z]
        normals = [
            scipy.stats.norm(values[flags].mean(), values[flags].std(ddof=1))
            for flags in (inside, ~inside)
        ]
        found.append(normals[0].logpdf(signal[0, z]) - normals[1].logpdf(signal[0, z]))
    return np.array(found)


def main() -> None:
    given = options(models=256, samples=50_000, classes=100, slow=2_000, rounds=3)
    rng = np.random.default_rng(0)
    attack_models(made(rng, 8, 1000, 2), "R", rule="gaussian")  # imports
    before = peak_mib()
    table = made(rng, given.models, given.samples, given.classes)
    size = (table.signal("loss").nbytes + table.member.nbytes) / 2**20
    references = range(1, given.models)
    one = {"shadow": table, "references": references}
    each: dict[str, list[float]] = {name: [] for name in MANY}
    rounds = []
    for _ in range(given.rounds):
        with Clock() as clock:
            for name in MANY:
                of = (table.select(models=[0]), one) if name in "DL" else (table, {})
                each[name].append(timed(lambda n=name, o=of: attack_models(o[0], n, **o[1]))[1])
        rounds.append(clock)
    peak = peak_mib() - before
    some = min(given.slow, given.samples)
    table.values["logit-confidence"] = logits(table.signal("loss"))
    alone, others = table.select(models=[0]), table.select(models=references)
    slow, fast = [], []
    for _ in range(given.rounds):
        expected, seconds = timed(lambda: one_by_one(table, some))
        slow.append(seconds / some)
        found, seconds = timed(lambda: attack_models(alone, "lira-online", shadow=others).scores[0])
        fast.append(seconds / given.samples)
        np.testing.assert_allclose(found[:some], expected, rtol=1e-6)
    show(
        "many_models",
        models=given.models,
        samples=given.samples,
        **spread("seconds", [clock.wall for clock in rounds]),
        **spread("cpu_seconds", [clock.cpu for clock in rounds]),
        cpu_seconds_each={name: middle(times, 2) for name, times in each.items()},
        table_mib=round(size),
        tables=round(peak / max(size, 1e-9), 2),
        **spread("ratio", over(slow, fast), digits=1),
    )


if __name__ == "__main__":
    main()
