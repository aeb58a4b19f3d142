"""Tables of many models, and every attack as plain loops over samples and models."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.stats

from canary.membership.references import random_order
from canary.signals.signal_table import SignalTable


def table_of(loss, member, label=None, *, classes=3, **more):
    loss = np.asarray(loss, np.float64)
    label = np.arange(loss.shape[1]) % classes if label is None else np.asarray(label)
    return SignalTable({"loss": loss}, np.asarray(member) == 1, label, int(label.max()) + 1, **more)


def halves(rng, models, samples):
    """Members such that every sample is in half of the models."""
    order = np.argsort(rng.random((models, samples)), axis=0)
    return order < models // 2


def random_table(rng, models=8, samples=24, *, ties=False, classes=3):
    """Members have lower losses; samples, classes and models differ from each other."""
    member = halves(rng, models, samples)
    logit = rng.normal(0, 1, samples) + rng.normal(0, 0.5, (models, 1)) + 1.5 * member
    logit = logit + rng.normal(0, 1, (models, samples))
    loss = np.logaddexp(0, -logit)
    return table_of(np.round(loss, 1) if ties else loss, member, classes=classes)


def logit(loss):
    """log(p / (1 - p)), within 104 nats."""
    p = math.exp(-loss)
    if p == 1.0 or loss == 0:
        return 104.0
    if p == 0.0:
        return max(-104.0, -loss)
    return min(-loss - math.log(-math.expm1(-loss)), 104.0)


def null_of(table, name, target, sample, *, shadow=None, population=None, inside=False):
    """The losses with which attack `name` compares one sample, one by one."""
    source = table if shadow is None else shadow
    loss = source.values["loss"]
    found = []
    if name == "P":
        for z in range(table.samples):
            usable = population is None or population[z]
            if usable and not table.member[target, z] and z != sample:
                found.append(table.values["loss"][target, z])
        if population is None and table.member[target, sample]:  # in the stead of an equal one
            own = table.values["loss"][target, sample]
            if own in found:
                found.remove(own)
        return found
    for step in range(source.models):
        model = (target + step) % source.models
        if name == "S":
            if source is table and model == target:
                continue
            for z in range(source.samples):
                usable = source is not table or population is None or population[z]
                same = source.label[z] == table.label[sample]
                if usable and same and not source.member[model, z]:
                    found.append(loss[model, z])
        elif source.member[model, sample] == inside:
            found.append(loss[model, sample])
    if source is not table or name == "S":
        return found
    # The target, if it is of the kind, and then the next ones of the kind.
    return found[lacking(table, target, sample, inside=inside) :]


def lacking(table, target, sample, *, inside):
    """How many models of a kind a target does without, so that both kinds have equally many."""
    alike = table.member == inside
    counts = alike.sum(axis=0) - alike[target]
    order = random_order(table.samples).tolist()
    # From the fewest models without to the most, whichever kind is asked for.
    known = table.member.sum(axis=0) - table.member[target]
    ranked = {
        flag: sorted((z for z in order if table.member[target, z] == flag), key=lambda z: -known[z])
        for flag in (False, True)
    }
    flag = bool(table.member[target, sample])
    mine, theirs = ranked[flag], ranked[not flag]
    share = Fraction(2 * mine.index(sample) + 1, 2 * len(mine))
    partner = theirs[math.floor(share * len(theirs))]
    fewest = min(counts[sample], counts[partner])
    return int(alike[target, sample]) + int(counts[sample] - fewest)


def p_value(loss, null, rule, common):
    """The least alpha at which the loss is rejected."""
    m, below = len(null), sum(x <= loss for x in null)
    if rule == "empirical":
        return (1 + below) / (m + 1)
    if rule == "linear":
        if below == 0:
            return 1 / (m + 1)
        low = max(x for x in null if x <= loss)
        if below == m:
            return 1.0
        high = min(x for x in null if x > loss)
        share = 0.0 if math.isinf(high) else (loss - low) / (high - low)
        return (below + share) / (m + 1)
    values = [logit(x) for x in null]
    mean = sum(values) / m
    if m < 2 or np.ptp(values) < 1e-9:
        z = (logit(loss) - mean) / math.sqrt(common * (1 + 1 / m))
        return scipy.stats.norm.sf(z)
    z = (logit(loss) - mean) / (np.std(values, ddof=1) * math.sqrt(1 + 1 / m))
    return scipy.stats.t.sf(z, m - 1)


def pooled(groups):
    """Variance within groups of logits, of all together."""
    groups = [[logit(x) for x in group] for group in groups]
    squares = sum(float(((np.array(g) - np.mean(g)) ** 2).sum()) for g in groups if g)
    return max(squares / max(sum(len(g) - 1 for g in groups if g), 1), 1e-24)


def slow_tests(table, name, rule, *, shadow=None, population=None):
    """Evidence of S, P, R, D and L in bits."""
    result = np.empty((table.models, table.samples))
    for t in range(table.models):
        nulls = [
            null_of(table, name, t, z, shadow=shadow, population=population)
            for z in range(table.samples)
        ]
        groups = nulls
        if name == "S":
            _, first = np.unique(table.label, return_index=True)
            groups = [nulls[z] for z in first]
        common = 1.0 if rule != "gaussian" or name == "P" else pooled(groups)
        for z in range(table.samples):
            p = p_value(table.values["loss"][t, z], nulls[z], rule, common)
            result[t, z] = -math.log2(p)
    return result


def slow_lira(table, *, online, fixed, shadow=None):
    result = np.empty((table.models, table.samples))
    for t in range(table.models):
        kinds = {}
        for inside in (False, True) if online else (False,):
            groups = [
                null_of(table, "R", t, z, shadow=shadow, inside=inside)
                for z in range(table.samples)
            ]
            kinds[inside] = groups, pooled(groups)
        for z in range(table.samples):
            value = logit(table.values["loss"][t, z])
            normal = {}
            for inside, (groups, common) in kinds.items():
                values = [logit(x) for x in groups[z]]
                poor = fixed or len(values) < 2 or np.ptp(values) < 1e-9
                sd = math.sqrt(common) if poor else np.std(values, ddof=1)
                normal[inside] = scipy.stats.norm(np.mean(values), sd)
            if online:
                result[t, z] = normal[True].logpdf(value) - normal[False].logpdf(value)
            else:
                result[t, z] = -normal[False].logsf(value) / math.log(2)
    return result


def slow_rmia(table, *, online, gamma, a, shadow=None, population=None):
    """Pair by pair."""
    result = np.empty((table.models, table.samples))
    for t in range(table.models):
        ratio = []
        for z in range(table.samples):
            out = np.mean(np.exp(-np.array(null_of(table, "R", t, z, shadow=shadow))))
            if online:
                usual = null_of(table, "R", t, z, shadow=shadow, inside=True)
                usual = (out + np.mean(np.exp(-np.array(usual)))) / 2
            else:
                usual = (out + a * out + 1 - a) / 2
            ratio.append(math.exp(-table.values["loss"][t, z]) / usual)
        for x in range(table.samples):
            hits = [
                ratio[x] / ratio[z] >= gamma
                for z in range(table.samples)
                if not table.member[t, z] and (population is None or population[z])
            ]
            result[t, x] = np.mean(hits)
    return result
