"""The recipe of Song and Mittal: its defences in little, and the whole on made-up records."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from recipe_scripts import RECIPES, has_table, modules

import canary
from canary.errors import InputError
from canary.membership.risk import RiskScores

RECIPE = RECIPES / "song_mittal"

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as found:
        yield found


def refused(recipe, monkeypatch, script, *options):
    """What a script says when it ends with an error."""
    monkeypatch.setattr(sys, "argv", [script, *map(str, options)])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    with pytest.raises(SystemExit) as told:
        recipe[script].main()
    return str(told.value)


def made_up(samples):
    """Records whose features say the class with much noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 30, samples)
    likely = rng.random((30, 446)) < 0.2
    return (rng.random((samples, 446)) < 0.1 + 0.2 * likely[labels]).astype(np.float32), labels


@pytest.mark.parametrize(
    ("dataset", "records"),
    [("location30", 5010), ("cifar10", 4000), ("purchase100", 197_324), ("texas100", 67_330)],
)
def test_target_and_shadow_share_no_record(recipe, dataset, records):
    sizes = recipe["data"].DATASETS[dataset].sizes
    parts = recipe["train"].split(records, 3, sizes)
    for name, own in sizes.items():
        assert tuple(map(len, parts[name])) == own
        everything = np.concatenate(parts[name])
        assert len(np.unique(everything)) == sum(own)
        if name != "target":
            assert not np.isin(everything, np.concatenate(parts["target"])).any()
    # Too few records are said with how many it takes.
    sizes = recipe["data"].DATASETS["cifar10"].sizes
    with pytest.raises(InputError, match=r"3,999 records, where target and shadow take 4,000"):
        recipe["train"].split(3999, 0, sizes)


def test_architectures_of_the_paper_golden(recipe):
    networks = recipe["networks"]

    def widths(inputs, **options):
        model = networks.network(inputs, 30, architecture=networks.Architecture(**options))
        return [layer.out_features for layer in model if isinstance(layer, torch.nn.Linear)]

    assert widths((446,)) == [1024, 512, 256, 128, 30]
    assert widths((446,), depth=3) == [1024, 512, 256, 30]
    assert widths((446,), depth=5, width=0.5) == [1024, 512, 256, 128, 64, 30]
    tanh = networks.network((446,), 30, architecture=networks.Architecture("tanh"))
    assert [type(layer).__name__ for layer in tanh[-3:]] == ["Linear", "Tanh", "Linear"]
    # Two blocks with pooling leave 8 x 8 of 32 x 32.
    model = networks.network((3, 32, 32), 10, dropout=0.2)
    assert widths((3, 32, 32)) == [128, 30]
    assert model[7].in_features == 32 * 8 * 8
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_guarded_outputs_keep_their_class_and_leave_a_coin(recipe, monkeypatch):
    guard = recipe["memguard"]
    monkeypatch.setattr(guard, "WEIGHTS", (0.1, 1.0))
    rng = np.random.default_rng(1)
    member = torch.from_numpy(rng.random(150) < 0.5)
    logits = torch.from_numpy(rng.normal(size=(150, 5)).astype(np.float32))
    logits[:, 0] += 3 * member
    defender = guard.train_defender(logits, member, seed=0)
    kept = guard.guard(logits, defender)
    before, after = (guard._certainty(z, defender) for z in (logits, kept))
    assert ((before > 0) == member).float().mean() > 0.7
    assert (kept.argmax(1) == logits.argmax(1)).all()
    moved = (kept != logits).any(1)
    assert moved.float().mean() > 0.9
    # Every success lies just across the boundary.
    assert (after[moved] * before[moved] <= 0).all()
    assert after[moved].abs().mean() < 0.3 * before[moved].abs().mean()


@pytest.mark.parametrize("defence", ["dropout", "weight-decay", "adversarial-regularization"])
def test_defences_train_seeded_and_tell_how_far_they_are(recipe, defence):
    x, y = made_up(130)
    told = []

    def trained():
        options = {**recipe["train"].DEFENCES[defence], "epochs": 2, "seed": 5}
        options["classes"] = 30
        train = recipe["networks"].train
        data = (x[:100], y[:100])
        if defence == "adversarial-regularization":
            train, data = recipe["networks"].train_against_attacker, (*data, x[100:], y[100:])
        options["every"] = 0.5
        return train(*data, each=lambda epochs, model: told.append(epochs), **options)

    one, other = trained(), trained()
    assert not one.training
    inputs = torch.from_numpy(x)
    assert torch.equal(one(inputs), other(inputs))
    assert told[:4] == [0.5, 1.0, 1.5, 2.0]  # two batches of an epoch


def test_images_train_with_every_defence_of_the_training(recipe):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 70)
    x = (rng.normal(size=(70, 3, 8, 8)) + y[:, None, None, None]).astype(np.float32)
    networks, options = recipe["networks"], {"classes": 3, "seed": 0, "epochs": 30}
    models = [
        networks.train(x[:50], y[:50], dropout=0.2, **options),
        networks.train_against_attacker(x[:50], y[:50], x[50:], y[50:], strength=0.5, **options),
    ]
    for model in models:
        assert (recipe["train"].says(model, x[:50]).argmax(1) == y[:50]).mean() > 0.8


@pytest.mark.parametrize("shape", [(40,), (3, 8, 8)])
def test_private_training_spends_what_the_accountant_says(recipe, shape):
    """DP-SGD as the recipe runs it, on records and on images; skipped without opacus."""
    accountants = pytest.importorskip("opacus.accountants", reason="needs opacus")
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 320)
    x = (rng.normal(size=(320, *shape)) + rng.normal(size=(3, *shape))[y]).astype(np.float32)
    told = []
    options = {"classes": 3, "seed": 7, "clip": 1.0, "rate": 0.05, "delta": 1e-4, "epochs": 3}

    def trained(noise):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of opacus are its own
            return recipe["networks"].train_privately(
                *(x, y),
                noise=noise,
                each=lambda epochs, model: told.append((epochs, model.training)),
                **options,
            )

    (model, epsilon), (again, _), (noisy, less) = (trained(noise) for noise in (0.6, 0.6, 20.0))
    assert told[:3] == [(1, False), (2, False), (3, False)]
    assert not model.training
    inputs = torch.from_numpy(x)
    assert torch.equal(model(inputs), again(inputs))
    # Five Poisson batches of a fifth in each of three epochs.
    accountant = accountants.RDPAccountant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(15):
            accountant.step(noise_multiplier=0.6, sample_rate=0.2)
        assert epsilon == pytest.approx(accountant.get_epsilon(delta=1e-4))
    assert less < 0.5 < epsilon
    # It learns; and the noise goes into the weights, more of it where more is asked for.
    assert (model(inputs).argmax(1).numpy() == y).mean() > 0.7
    sizes = [torch.cat([p.flatten() for p in m.parameters()]).norm() for m in (model, noisy)]
    assert sizes[1] > 2 * sizes[0]


def test_without_opacus_private_training_is_refused_before_it_starts(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe["train"].importlib.util, "find_spec", lambda name: None)
    given = argparse.Namespace(defences="undefended,dp-sgd", work=tmp_path)
    with pytest.raises(InputError, match="dp-sgd needs opacus; pip install opacus"):
        recipe["train"].run(given, recipe["data"].DATASETS["mnist"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", ["train", "attacks"])
def test_a_file_that_is_not_there_is_told_without_a_traceback(
    recipe, tmp_path, monkeypatch, script
):
    options = ["--data", tmp_path, "--work", tmp_path / "work", "--dataset", "cifar100"]
    options += ["--defences", "undefended"] if script == "train" else []
    told = refused(recipe, monkeypatch, script, *options)
    assert re.search(rf"{script}\.py: .*train\.bin: no such file; unpack", told)


def test_means_and_intervals_golden(recipe):
    table = recipe["table"]
    # Mean 0.6, standard error 0.1 / sqrt(3), and t of three degrees of freedom is 3.18245.
    assert table.summed([0.5, 0.5, 0.7, 0.7]) == [0.6, 0.18374]
    assert table.percent([0.6, 0.0125]) == "60.0 ± 1.2"
    assert table.summed([0.5]) == [0.5]
    # Student's interval of these would end at 111 %.
    assert table.summed([0.813, 0.533, 0.802]) == [0.716, 0.533, 0.813]
    assert table.percent([0.716, 0.533, 0.813]) == "71.6 (53.3 to 81.3)"
    assert recipe["risk"].plain_number([0.5, 0.25, 1.0]) == "0.50 (0.25 to 1.00)"
    assert [table.remark(seeds).split()[1] for seeds in (1, 3, 10)] == ["seed.", "(least", "±"]


ABOUT = {"data set": "location30", "fingerprint of the data": "aa", "schedule": "ordinary"}


def test_a_work_is_of_one_data_set_and_one_schedule(recipe, tmp_path):
    works, work = recipe["works"], tmp_path / "work"
    with pytest.raises(InputError, match=r"work: holds no models; run train\.py"):
        works.check(work, ABOUT)
    works.begin(work, {**ABOUT, "sizes": (1, 2)})
    works.begin(work, {**ABOUT, "sizes": (1, 2)})  # it goes on
    assert works.check(work, ABOUT)["sizes"] == [1, 2]
    for other, told in (
        ({"data set": "mnist", "fingerprint of the data": "bb"}, "location30, where mnist is"),
        ({"schedule": "published"}, "schedule: ordinary, where published is"),
        ({"dropout": {"dropout": 0.3}}, r"dropout: None, where \{'dropout': 0.3\} is"),
    ):
        with pytest.raises(InputError, match=rf"another .*{told} asked for; name another --work"):
            works.begin(work, {**ABOUT, **other})
    old = tmp_path / "old"
    (old / "seed-0").mkdir(parents=True)
    with pytest.raises(InputError, match="holds models, and does not say of what"):
        works.begin(old, ABOUT)


@pytest.mark.parametrize("other", ["--published", "--dataset"])
def test_training_something_else_into_a_work_is_refused(recipe, tmp_path, monkeypatch, other):
    train = recipe["train"]
    trained = []
    monkeypatch.setattr(train, "job", lambda x, y, parts, **how: trained.append(how))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setitem(train.DEFENCES, "undefended", {})  # --published sets it
    x, y = made_up(4000)
    for name in ("cifar10", "agnews"):
        dataset = recipe["data"].DataSet(lambda _: (x, y), recipe["data"].IMAGES)
        monkeypatch.setitem(recipe["data"].DATASETS, name, dataset)
    common = ["train", "--data", ".", "--work", str(tmp_path), "--seeds", "1"]
    common += ["--defences", "undefended"]
    monkeypatch.setattr(sys, "argv", [*common, "--dataset", "cifar10"])
    train.main()
    assert len(trained) == 3
    more = ["--dataset", "agnews"] if other == "--dataset" else ["--dataset", "cifar10", other]
    told = refused(recipe, monkeypatch, *common, *more)
    assert re.search(r"train\.py: .*begun with another (data set|schedule)", told)
    assert len(trained) == 3


def test_results_bear_the_name_of_what_the_work_holds(recipe, tmp_path):
    works = recipe["works"]
    works.begin(tmp_path / "plain", ABOUT)
    works.begin(tmp_path / "published", {**ABOUT, "schedule": "published"})
    assert works.name_of(tmp_path / "plain", None) == "location30"
    assert works.name_of(tmp_path / "plain", "mine") == "mine"
    assert works.name_of(tmp_path / "published", None) == "published"
    for work, name in (("plain", "published"), ("plain", "mnist"), ("published", "location30")):
        with pytest.raises(InputError, match=f"{name} is asked for, and .*leave --name out"):
            works.name_of(tmp_path / work, name)


def test_scripts_say_what_to_run_first(recipe, tmp_path, monkeypatch):
    def refused_by(script, *options):
        return refused(recipe, monkeypatch, script, *options)

    work = ("--work", tmp_path / "work")
    for script in ("table", "risk", "figures"):
        more = ("--data", tmp_path) if script == "figures" else ()
        assert "holds no models; run train.py" in refused_by(script, *work, *more)
    assert "no location30.json or mnist.json" in refused_by("of_paper", "--out", tmp_path)
    recipe["works"].begin(tmp_path / "work", ABOUT)
    (tmp_path / "work" / "seed-0").mkdir()
    assert "0 of 1 seeds are attacked; run attacks.py" in refused_by("table", *work)
    assert "holds no undefended target and shadow; run train.py" in refused_by("risk", *work)
    figures = ("figures", *work, "--data", tmp_path)
    assert "location30.json: no such file; run table.py" in refused_by(*figures)
    (tmp_path / "work" / "location30.json").write_text("{}")
    assert "location30-risk.json: no such file; run risk.py" in refused_by(*figures)
    (tmp_path / "work" / "location30-risk.json").write_text("{}")
    monkeypatch.setattr(recipe["figures"].importlib.util, "find_spec", lambda name: None)
    assert "needs scikit-learn; pip install scikit-learn" in refused_by(*figures)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


def test_attacks_are_made_again_for_another_defence(recipe, tmp_path, monkeypatch):
    attacks, x, y = recipe["attacks"], *made_up(10)
    dataset = recipe["data"].DataSet(lambda _: (x, y))
    monkeypatch.setitem(recipe["data"].DATASETS, "mnist", dataset)
    recipe["works"].begin(tmp_path, {**recipe["train"].identity("mnist", x, y), "schedule": "a"})
    made = []

    def attacked(seed, x, y, *, outputs_alone):
        made.append(attacks.defences(seed))
        return {"facts": {}}

    monkeypatch.setattr(attacks, "attacked", attacked)
    given = argparse.Namespace(
        data=tmp_path, work=tmp_path, dataset="mnist", seeds=1, outputs_alone=True
    )
    for name in ("undefended", "undefended", "dropout"):
        (tmp_path / "seed-0" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "seed-0" / name / "shadow.json").write_text("{}")
        attacks.run(given)
    assert made == [["undefended"], ["undefended", "dropout"]]
    given.outputs_alone = False
    attacks.run(given)
    assert len(made) == 3


def test_early_stopping_is_where_accuracy_comes_nearest(recipe):
    path = [{"test": share} for share in (0.1, 0.5, 0.6, 0.55, 0.6)]
    assert recipe["attacks"].nearest(path, 0.56) == 3
    assert recipe["attacks"].nearest(path, 0.9) == 2  # the first of equally near ones


def test_every_member_is_lacked_as_often(recipe, monkeypatch, tmp_path):
    variants, train = recipe["variants"], recipe["train"]
    monkeypatch.setattr(variants, "PARTS", 4)
    x, y = made_up(60)
    record, member = np.arange(60)[::-1].copy(), np.arange(60) < 34
    (tmp_path / "undefended").mkdir()
    np.savez(tmp_path / "undefended" / "target.npz", record=record, member=member)
    trained = []

    def of(given, labels, **options):
        trained.append(given)
        return recipe["networks"].network(given.shape[1:], 30)

    monkeypatch.setattr(recipe["networks"], "train", of)
    dataset = recipe["data"].DATASETS["location30"]
    variants.lacking(tmp_path, x, y, dataset)
    held = [np.load(path) for path in sorted((tmp_path / "lacking").iterdir())]
    assert len(held) == variants.ROUNDS * 4
    has = np.stack([one["member"] for one in held])
    assert not has[:, 34:].any()
    assert ((~has[:, :34]).sum(axis=0) == variants.ROUNDS).all()
    # Each was trained on the members that it has, and on nothing else.
    assert np.array_equal(trained[0], train.floats(x[record[has[0]]]))
    variants.lacking(tmp_path, x, y, dataset)
    assert len(trained) == len(held)  # all was there


def judged(scores, member):
    """Something with risk scores, of which nothing else is asked."""
    risks = RiskScores(np.array(scores), 0.5, 5, "log", np.zeros(2, bool))
    return SimpleNamespace(risks=risks, member=np.array(member, bool))


def test_precision_is_of_the_seeds_that_guess_golden(recipe):
    # From 0.8 on the first seed calls two members and one other, the second nobody.
    found = recipe["risk"].guesses(
        [
            judged([0.9, 0.8, 0.5, 0.8, 0.1], [1, 1, 1, 0, 0]),
            judged([0.7, 0.5, 0.5, 0.1], [1, 1, 0, 0]),
        ]
    )
    row = {one["threshold"]: one for one in found}[0.8]
    # At a prior of a half: 2/3 of the members against 1/2 of the others.
    assert row["precision"] == [pytest.approx((2 / 3) / (2 / 3 + 1 / 2), abs=1e-5)]
    assert row["recall"][0] == pytest.approx((2 / 3 + 0) / 2, abs=1e-5)
    assert found[0]["precision"] is None


def test_shares_up_to_a_score_golden(recipe):
    below = recipe["risk"].share_below(np.array([0.0, 0.15, 0.15, 1.0]))
    assert [below[at] for at in (0, 2, 3, 19, 20)] == [0.25, 0.25, 0.75, 0.75, 1.0]


def test_trust_over_seeds_and_of_all_together_golden(recipe):
    scores = [np.array([0.75, 0.75, 0.25, 0.25]), np.array([0.75, 0.25, 0.75, 0.25])]
    members = [np.array([True, True, False, False])] * 2
    found = recipe["risk"].trust(scores, members)
    # The first seed's scores are off by a quarter everywhere, as are the second's: half of
    # those of 0.75 are members. Together three of four of them are.
    assert found["rmse"] == [0.25, 0.25, 0.25]
    assert found["curve"] == [[0.25, 0.25, 4], [0.75, 0.75, 4]]


def test_sensitivity_reads_the_models_that_lack_members(recipe, tmp_path):
    rng = np.random.default_rng(0)
    logits, label = rng.normal(size=(3, 10, 2)), rng.integers(0, 2, 10)
    member = np.arange(10) < 8
    table = canary.measure(logits[0], y=label, member=member, outputs="logits", keep_outputs=True)
    (tmp_path / "lacking").mkdir()
    for number, lost in enumerate((np.arange(4), np.arange(4, 8))):
        has = member.copy()
        has[lost] = False
        np.savez(tmp_path / "lacking" / f"{number}.npz", logits=logits[1 + number], member=has)
    one = SimpleNamespace(table=table, member=member, risks=judged(rng.random(10), member).risks)
    found = recipe["risk"].of_lacking(tmp_path, one)
    assert (found["models"], found["lacked"]) == (2, 4)
    without = np.concatenate([logits[1, :4], logits[2, 4:8]])
    tables = [
        canary.measure(given, y=label[:8], member=member[:8], outputs="logits")
        for given in (without, logits[0, :8])
    ]
    apart, with_all = (np.log(t.signal("modified-entropy")[0]) for t in tables)
    assert sum(band["count"] for band in found["bands"]) == 8
    mean = sum(band["count"] * band["mean"] for band in found["bands"]) / 8
    assert mean == pytest.approx((apart - with_all).mean(), abs=1e-5)
    assert recipe["risk"].of_lacking(tmp_path / "elsewhere", one) is None


def test_risk_of_a_defence_that_some_seeds_lack_is_refused(recipe, tmp_path, monkeypatch):
    risk, names = recipe["risk"], {"seed-0": ["undefended", "memguard"], "seed-1": ["undefended"]}
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(recipe["attacks"], "defences", lambda seed: names[seed.name])
    monkeypatch.setattr(
        risk, "models", lambda seed: [(name, None, None) for name in names[seed.name]]
    )
    monkeypatch.setattr(risk, "judged", lambda *pair: pair)
    with pytest.raises(InputError, match="memguard is there in 1 of 2 seeds; train it in every"):
        risk.results(tmp_path)


def test_gain_is_of_the_strongest_attacks_seed_by_seed_golden(recipe):
    def row(neural, confidence, **others):
        reached = {"neural": neural, "confidence": confidence, **others}
        return {"attacks": {name: {"accuracy": share} for name, share in reached.items()}}

    rows = [
        {"dropout": row(0.5, 0.6), "dropout/nearest": row(0.8, 0.7), "undefended": row(1, 1)},
        {"dropout": row(0.9, 0.6), "dropout/nearest": row(0.5, 1.0), "undefended": row(1, 1)},
    ]
    gain = recipe["table"].gain
    # 0.8 - 0.6 and 1.0 - 0.9.
    assert gain(rows, "dropout") == [0.15, 0.1, 0.2]
    assert gain(rows, "undefended") is None
    assert gain([{"memguard": row(0.6, 0.5), "undefended": row(0.9, 0.7)}], "memguard") == [0.3]
    # White boxes were not made of every model, so they do not count.
    assert gain([{"memguard": row(0.6, 0.5, **{"white-box": 1.0}), **rows[0]}], "memguard") == [0.4]


def test_the_page_shows_what_is_kept(recipe):
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    table, risk, of_paper = (recipe[name] for name in ("table", "risk", "of_paper"))
    kept = {path.stem: json.loads(path.read_text()) for path in RECIPE.glob("*.json")}
    sets = {name: kept[name]["rows"] for name in table.SETS if name in kept}
    risks = {name: kept[f"{name}-risk"] for name in sets}
    regularized = {name: rows for name, rows in sets.items() if of_paper.REGULARIZED in rows}
    held = {name: rows for name, rows in sets.items() if of_paper.white_box(rows)}
    tables = [table.table_4(kept["location30"]), table.table_of_attacks(kept["location30"])]
    tables += [table.table_of_defences(kept[name]) for name in risks]
    tables.append(
        f"| {table.SETS[name]} {row}"
        for name, found in risks.items()
        for row in risk.table_of_trust(found)[2:]
    )
    for made, of in (
        (of_paper.table_1, sets),
        (of_paper.table_2, regularized),
        (of_paper.table_3, regularized),
        (of_paper.table_5, held),
        (of_paper.figure_8, risks),
    ):
        head, *rows = map(table.line, made(of))
        assert f"{head}\n| ---" in page
        tables.append(rows)
    found = risks["location30"]
    for made in (risk.table_6, risk.table_of_priors, risk.table_of_architectures):
        tables.append(made(found))
    tables.append(risk.table_of_causes(found)[3:])
    assert not [rows for rows in map("\n".join, tables) if not has_table(page, rows)]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_training_to_the_tables(tmp_path):
    x, labels = made_up(5010)
    bits = np.packbits(x.astype(bool), axis=1)
    np.savez(tmp_path / "location30.npz", bits=bits, labels=labels + 1, n_features=446)
    work = tmp_path / "work"
    common = ("--work", work)
    data = (*common, "--data", tmp_path, "--seeds", "1")
    few = "undefended,memguard,adversarial-regularization"
    out = ("--out", tmp_path)
    said = [
        subprocess.run([sys.executable, RECIPE / name, *options], capture_output=True, text=True)
        for name, options in (
            ("train.py", (*data, "--defences", few)),
            ("train.py", (*data, "--defences", few)),
            ("attacks.py", data),
            ("table.py", (*common, *out)),
            ("of_paper.py", out),
            ("risk.py", (*common, *out)),
            ("figures.py", (*data, *out)),
        )
    ]
    for done in said:
        assert done.returncode == 0, done.stderr
    assert said[0].stdout.count("seed 0: ") == 3 + 3 + 2
    assert said[1].stdout == f"nothing to train: {work} has all of these models\n"
    assert "| MemGuard, paper | 100 | 60.7 | 50.1 | 68.7 | 69.1 | 52.1 | 68.8 |" in said[3].stdout
    found = json.loads((tmp_path / "location30.json").read_text())
    rows = found["rows"]
    assert rows["adversarial-regularization"]["attacks"]["neural"]["accuracy"][0] > 0.5
    assert rows["undefended"]["train"] == [1.0]
    assert rows["memguard"]["test"] == rows["undefended"]["test"]
    for text in ("table 1", "table 2", "table 3", "table 5", "| Location30, ours | undefended |"):
        assert text in said[4].stdout
    risk = json.loads((tmp_path / "location30-risk.json").read_text())
    assert set(risk["rows"]) == {*few.split(","), "stopped"}
    assert risk["rows"]["undefended"]["trust"]["risk"]["rmse"][0] < 0.3
    for name, words in (("defences", "figure 2"), ("risk", "figure 10"), ("why", "figure 9")):
        assert words in (tmp_path / f"{name}.svg").read_text()
