"""What a run finds in its folder: gone on with if it is its own, refused if it is another's."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict, replace

import pytest
from recipe_scripts import ScriptError, modules, run_script
from secret_sharer import RECIPE

import canary

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine

TEXTS = {name: ["one line", "and another one"] * 20 for name in ("train", "valid", "test")}


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as loaded:
        yield loaded


def canaries_of(seed, text="one {digit:2}"):
    return canary.generate(text, repetitions=[1], per_repetition=1, controls=1, seed=seed)


def trained(recipe, work, texts=TEXTS, *, epochs=0):
    """A tiny training in this folder; without epochs only what it begins with."""
    tokenizer = recipe["corpus"].character_tokenizer(texts, "0123456789")
    config = {"vocabulary": tokenizer.get_vocab_size(), "embedding": 2, "units": 3, "layers": 1}
    settings = recipe["train"].Settings(epochs=epochs, batch=2, window=20)
    work.mkdir(exist_ok=True)
    return list(recipe["train"].train(config, tokenizer, texts, settings, work))


def test_a_median_of_draws_is_no_lower_for_canaries_above_all_of_them(recipe):
    def median(*bits):
        return recipe["figure"].median_bound([{"bits": b, "lower_bits": 12.4} for b in bits])

    assert median(None, None, 14.3, 14.3) == (12.4, True)
    assert median(None, 14.3, 13.3, 0.0) == (14.3, False)
    assert median(0.0, 0.0, 1.0) == (0.0, False)


def test_a_resumed_mailbox_has_the_controls_of_a_whole_one(recipe, tmp_path, monkeypatch):
    of = recipe["mailboxes"]
    format = canary.Format.of(of.FORMS["telephone"][0])

    def secret(number):
        return of.Secret("telephone", format, f"555123{number:04}", "call ", 1)

    box = of.Mailbox("A", {"train": ["a mail"]}, [secret(n) for n in range(5)])
    strangers = [secret(n) for n in range(100, 140)]
    beside = []

    def extract(*_, **__):
        if len(beside) == stop:
            raise KeyboardInterrupt
        return Namespace(candidates=[], queries=1)

    def ranked(_model, _secret, fills, _nodes):
        beside.append(fills)
        return [float(fill[-4:]) for fill in fills]

    monkeypatch.setattr(of, "ranked", ranked)
    monkeypatch.setattr(of.canary, "load", lambda *_, **__: None)
    monkeypatch.setattr(of.canary, "extract", extract)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    stop = 0
    rows = of.measured(whole, box, strangers, of.QUICK)
    assert len({*map(tuple, beside)}) == 5
    beside, stop = [], 3
    with pytest.raises(KeyboardInterrupt):
        of.measured(killed, box, strangers, of.QUICK)
    assert len(json.loads((killed / "exposures.json").read_text())) == 2
    stop = 0
    assert of.measured(killed, box, strangers, of.QUICK) == rows
    # Another text, other controls or another plan would go on with what is not theirs.
    for other, why in (
        ((replace(box, texts={"train": ["b mail"]}), strangers, of.QUICK), "text"),
        ((box, strangers[1:], of.QUICK), "text"),
        ((box, strangers, replace(of.QUICK, nodes=51)), "settings"),
    ):
        with pytest.raises(SystemExit, match=f"other {why}; give another --work folder"):
            of.measured(killed, *other)
    (killed / "made-of.json").unlink()  # as an earlier version left it
    assert of.measured(killed, box, strangers, of.QUICK) == rows


def test_two_models_of_other_settings_are_not_shown_as_these(recipe, tmp_path):
    quick = ("--quick", "--work", tmp_path)
    shipped = json.loads((RECIPE / "disagreement.json").read_text())
    full = {"settings": asdict(recipe["disagreement"].SETTINGS), "model": recipe["alone"].MODEL}
    for kept, why in (
        (shipped, "does not say what its seeds were made of; give another"),
        (shipped | full | {"text": "0"}, "other settings and model and text; give another"),
    ):
        (tmp_path / "disagreement.json").write_text(json.dumps(kept))
        with pytest.raises(ScriptError, match=why):
            run_script(RECIPE / "disagreement.py", *quick)


def training(recipe, **changes):
    """A training of a study, which nobody trains."""
    settings = recipe["train"].Settings(epochs=4)
    given = {"name": "a", "about": {"s": "a", "seed": 0}, "settings": settings}
    return recipe["study"].Training(**given | {"canaries": canaries_of(0)} | changes)


def test_a_finished_training_of_other_canaries_or_model_is_refused(recipe, tmp_path):
    made = training(recipe)
    is_done = recipe["study"].is_done
    row = json.loads(json.dumps({**made.kept, "variants": {}}))
    assert is_done(made, {"trainings": {"a": row}}, tmp_path)
    for change, why in (
        ({"model": {**made.model, "units": 3}}, "model"),
        ({"canaries": canaries_of(1)}, "canaries"),
        ({"company": canaries_of(1)}, "canaries"),
        ({"views": {"nothing": canaries_of(0, "two {digit:2}")}}, "canaries"),
        ({"settings": replace(made.settings, epochs=5)}, "settings"),
    ):
        with pytest.raises(SystemExit, match=f"a: made with other {why}; give another"):
            is_done(training(recipe, **change), {"trainings": {"a": row}}, tmp_path)
    early = {"settings": row["settings"], "variants": {}}  # all that was kept at first
    assert is_done(training(recipe, canaries=canaries_of(1)), {"trainings": {"a": early}}, tmp_path)


def test_a_study_sums_up_the_trainings_that_it_plans(recipe, tmp_path):
    made = training(recipe)
    study = recipe["study"].Study("s", lambda *_, **__: [made], lambda r: repr([*r["trainings"]]))
    row = {**made.kept, "about": made.about, "epochs": [], "variants": {}}
    kept = {"study": "s", "planned": 2, "trainings": {"once planned": row, "a": row}}
    (tmp_path / "results.json").write_text(json.dumps(kept))
    assert recipe["study"].run(study, None, tmp_path, quick=True) == "['a']"
    (tmp_path / "results.json").write_text(json.dumps(kept | {"study": "t", "characters": 1}))
    with pytest.raises(SystemExit, match="other study and characters; give another --work"):
        recipe["study"].run(study, None, tmp_path, quick=True)


def test_hours_are_of_the_epochs_that_are_missing(recipe):
    first, second = training(recipe), training(recipe, name="b")
    pace = {recipe["study"].cost_of(first): (1000.0, 800.0)}
    results = {"trainings": {"a": {"epochs": [{}, {}, {}]}}}
    assert recipe["study"].hours([first, second], pace, results) == pytest.approx(2.5)


def test_hours_that_are_left_hold_measurements_that_are_due(recipe, tmp_path, monkeypatch):
    of, made, said = recipe["study"], training(recipe), []
    losses = {"valid_nats": 1.0, "test_nats": 1.0, "seconds": 1800.0, "audit_seconds": 0.0}
    epochs = [{"epoch": number, **losses} for number in (1, 2, 3, 4)]
    monkeypatch.setattr(of, "probed", lambda *_: {of.cost_of(made): (1.0, 1800.0)})
    monkeypatch.setattr(of, "trained", lambda *_: epochs)
    monkeypatch.setattr(of, "measured", lambda *_: {})
    monkeypatch.setattr(of, "variants_of", lambda *_: ())
    monkeypatch.setattr(of, "say", said.append)
    study = of.Study("s", lambda *_, **__: [made], lambda _: "")
    of.run(study, None, tmp_path, quick=True)
    assert [line.split("; ")[1] for line in said[2:]] == [f"{n}.0 h left" for n in (3, 2, 1, 0)]


def test_variants_have_no_epoch_of_least_validation_loss(recipe):
    def measured(nats, bits):
        found = {"canaries": [{"copies": n, "bits": bits * n} for n in (1, 0)]}
        return found | {"test_nats": nats, "valid_nats": nats}

    about = {"s": "none", "seed": 0}
    row = {"about": about, "epochs": [measured(1.5, 3.0), measured(2.0, 9.0)]}
    row["variants"] = {"rounded": measured(2.1, 8.0)}
    lines = recipe["study"].table_by({"trainings": {"a": row}}, "s").splitlines()
    assert lines[2] == "| none | 1 | 1.500 | 3.0 | 2.000 | 9.0 | 0.0 | - |"
    assert lines[3] == "| rounded | 1 | - | - | 2.100 | 8.0 | 0.0 | -1.0 |"


def test_a_training_goes_on_with_its_own_text_alone(recipe, tmp_path):
    trained(recipe, tmp_path)
    begun = tmp_path / "training.json"
    whole = begun.read_text()
    for other in (TEXTS | {"train": TEXTS["train"][1:]}, TEXTS | {"company": ["one line"]}):
        with pytest.raises(SystemExit, match=r"training\.json: made with other text; give anoth"):
            trained(recipe, tmp_path, other)
        assert begun.read_text() == whole
    early = {name: value for name, value in json.loads(whole).items() if name != "text"}
    begun.write_text(json.dumps(early))
    trained(recipe, tmp_path)
    assert json.loads(begun.read_text()) == early  # nobody knows which text it was
    begun.write_text(json.dumps({name: early[name] for name in early if name != "model"}))
    with pytest.raises(SystemExit, match=r"training\.json: made with other model; give anoth"):
        trained(recipe, tmp_path)
    assert not (tmp_path / "training.json.part").exists()


def test_canaries_and_audits_of_another_run_are_refused(recipe, tmp_path):
    of, plan = recipe["run"], recipe["run"].QUICK
    path = tmp_path / "canaries.json"
    first = of.canaries_of(plan, tmp_path, 0)
    kept = path.read_bytes()
    assert of.canaries_of(plan, tmp_path, 0) == first
    with pytest.raises(SystemExit, match=r"canaries\.json: made with other canaries; give anoth"):
        of.canaries_of(plan, tmp_path, 1)
    with pytest.raises(SystemExit, match="other canaries"):
        recipe["alone"].canaries_of(path, 0, quick=True)
    assert path.read_bytes() == kept
    (epoch,) = trained(recipe, tmp_path / "run", epochs=1)
    options = {"method": "sampling", "draws": 30, "seed": 0}
    mine = canaries_of(0)
    audit, _ = of.audit_of(epoch.folder, "draws.json", mine, **options)
    assert of.audit_of(epoch.folder, "draws.json", mine, **options)[0] == audit
    for canaries, change, why in (
        (canaries_of(1), {}, "canary_set"),
        (mine, {"draws": 40}, "draws"),
        (mine, {"seed": 1}, "seed"),
    ):
        with pytest.raises(SystemExit, match=rf"draws\.json: made with other {why}; give another"):
            of.audit_of(epoch.folder, "draws.json", canaries, **options | change)


def test_what_was_measured_with_other_options_is_refused(recipe, tmp_path):
    args = Namespace(budget=5, draws=6, seed=0)
    mine = canaries_of(0)
    given = recipe["run"].set_of(mine) | vars(args)
    (tmp_path / "measured.json").write_text(json.dumps(given | {"points": [{"bits": 1.0}]}))
    measured = recipe["alone"].measured
    assert measured(tmp_path, mine, args) == [{"bits": 1.0}]
    for name in ("budget", "draws", "seed"):
        with pytest.raises(SystemExit, match=f"made with other {name}; give another"):
            measured(tmp_path, mine, Namespace(**vars(args) | {name: 9}))
    with pytest.raises(SystemExit, match="made with other canary_set"):
        measured(tmp_path, canaries_of(1), args)
    (tmp_path / "measured.json").write_text('[{"bits": 2.0}]')  # of an earlier version
    assert measured(tmp_path, mine, args) == [{"bits": 2.0}]


def test_an_epoch_of_an_unfinished_training_is_not_its_last(recipe, tmp_path):
    work = tmp_path / "B"
    work.mkdir()
    (work / "training.json").write_text('{"epochs": 3}')
    for number in (1, 2):
        (work / f"epoch-{number:02d}").mkdir()
    cure = r"B: 1 of 3 epochs are missing; run `alone\.py train --strategy B` again until it ends"
    with pytest.raises(SystemExit, match=cure):
        recipe["alone"].finished(work)
    (work / "epoch-03").mkdir()
    assert [one.name for one in recipe["alone"].finished(work)][2:] == ["epoch-03"]
    with pytest.raises(SystemExit, match="6 of 6 epochs are missing"):
        recipe["alone"].finished(tmp_path / "A")


@pytest.mark.parametrize("script", ["estimators", "neighbours"])
def test_one_model_is_asked_about_its_own_canaries(recipe, script, tmp_path, monkeypatch):
    """And after the newline that is meant by the two characters of a shell."""
    run, epoch = tmp_path / "run", tmp_path / "run" / "epoch-01"
    epoch.mkdir(parents=True)
    for seed in (1, 2):
        canaries_of(seed).save(tmp_path / f"{seed}.json")

    def start(number):
        words = ("--canaries", tmp_path / f"{number}.json", "--id", "canary-1", "--out")
        words = [script, epoch, *words, tmp_path / "out.json", "--start-token", r"\n"]
        monkeypatch.setattr("sys.argv", [*map(str, words)])
        recipe[script].main()

    def found(*_, start_token, **__):
        raise KeyboardInterrupt(start_token)

    monkeypatch.setattr(recipe[script].canary, "load", lambda *_, **__: None)
    for asked in ("score", "audit"):
        monkeypatch.setattr(recipe[script].canary, asked, found)
    for beside in (None, "company.json", "canaries.json"):  # with none, with one, with both
        if beside:
            canaries_of(1 if beside == "company.json" else 3).save(run / beside)
        with pytest.raises(KeyboardInterrupt) as asked:
            start(1)
        assert asked.value.args == ("\n",)
    with pytest.raises(SystemExit, match=r"2\.json: the model has other canaries; give .*/run/can"):
        start(2)
