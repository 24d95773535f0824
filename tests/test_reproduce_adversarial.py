"""What a hostile but realistic user does to `evenmargin reproduce`, its data sets and its estimators."""

from __future__ import annotations

import errno
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold
from sklearn.svm import SVC
from test_reproduce import Toy, command, flat
from typer.testing import CliRunner

from evenmargin import datasets, reproduce
from evenmargin.cli import app
from evenmargin.reproduce import _runner
from evenmargin.selection import LearnedWeights


@pytest.fixture
def toys(monkeypatch):
    """Two tables, the first of which finds something that is not in Latin-1."""
    first, second = Toy(), Toy()
    plain = first.report
    first.report = lambda settings, results: reproduce.Report(plain(settings, results).sheets, ["γ_S is 1 ± 0"])
    tables = {
        "first": replace(first.table(), name="first"),
        "second": replace(second.table(), name="second"),
    }
    monkeypatch.setattr(reproduce, "tables", lambda: tables)
    return first, second


@pytest.fixture
def toy(monkeypatch):
    toy = Toy()
    monkeypatch.setattr(reproduce, "tables", lambda: {"toy-table1": toy.table()})
    return toy


def raising(error):
    def raised(*args, **kwargs):
        raise error

    return raised


def said_in_one_sentence(done, status=2):
    """The command ended by itself, without a traceback or an error number."""
    assert done.exit_code == status
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert "[Errno" not in done.output
    assert len(done.output.strip().splitlines()) == 1
    return True


# --- terminals and paths ---


def test_a_terminal_that_cannot_show_a_letter_does_not_keep_the_next_table_from_running(toys, tmp_path):
    done = CliRunner(charset="cp1252").invoke(app, ["reproduce", "first", "second", "--out", str(tmp_path)])
    assert toys[1].measured == [0, 1, 2, 3, 4]
    assert done.exit_code == 0


def test_the_list_can_be_shown_in_an_old_code_page(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENMARGIN_CACHE", str(tmp_path))
    done = CliRunner(charset="cp1252").invoke(app, ["reproduce", "--data", str(tmp_path)])
    assert done.exit_code == 0


@pytest.mark.parametrize("name", ["runs[old]", "a[/b]"])
def test_brackets_in_a_path_are_brackets(toy, tmp_path, name):
    done = command("toy-table1", "--out", tmp_path / name)
    assert done.exit_code == 0
    assert name in done.output.replace("\n", "")


def test_the_home_of_nobody_is_said(tmp_path):
    assert said_in_one_sentence(command("gwl-table1", "--data", "~nobody-of-this-name", "--out", tmp_path))


def test_a_file_where_the_folder_should_be_is_said(toy, tmp_path):
    (tmp_path / "file").touch()
    assert said_in_one_sentence(command("toy-table1", "--out", tmp_path / "file"))


def test_a_report_that_cannot_be_put_in_its_place_leaves_nothing_behind(toy, tmp_path):
    (tmp_path / "toy-table1.md").mkdir()
    done = command("toy-table1", "--out", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy-table1.jsonl", "toy-table1.md"]
    assert said_in_one_sentence(done)


def test_a_seed_that_is_too_large_is_refused_by_the_command(toy, tmp_path):
    assert command("toy-table1", "--seed", 2**32, "--out", tmp_path).exit_code == 2
    assert toy.measured == []


def test_every_cell_takes_a_date_as_a_seed(tmp_path):
    np.savez(tmp_path / "sonar.npz", **sonar())
    settings = reproduce.Settings(quick=True, trials=1, seed=20_240_601, folder=tmp_path)
    for job in reproduce.get_table("gwl-table2").jobs(settings):
        if "GWL" in job.key:
            job.run()


# --- stopped, killed, full ---


def test_a_full_disk_is_said_with_what_is_kept(toy, tmp_path, monkeypatch):
    synced, real = [], _runner.os.fsync

    def full(handle):
        synced.append(handle)
        if len(synced) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(_runner.os, "fsync", full)
    done = command("toy-table1", "--out", tmp_path)
    assert said_in_one_sentence(done)
    assert "2 of 5 cells of toy-table1 are kept" in flat(done.output)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("the device is gone")])
def test_a_cell_that_fails_is_said_with_what_is_kept(toy, tmp_path, error):
    toy.run = raising(error)
    done = command("toy-table1", "--out", tmp_path)
    assert said_in_one_sentence(done, status=1)
    assert (str(error) or "MemoryError") in done.output


def test_ctrl_c_while_the_report_is_written_says_what_is_kept(toy, tmp_path):
    toy.report = raising(KeyboardInterrupt())
    done = command("toy-table1", "--out", tmp_path)
    assert done.exit_code == 130
    assert "5 of 5 cells of toy-table1 are kept" in flat(done.output)


def test_half_written_lines_are_counted_in_figures(toy, tmp_path):
    command("toy-table1", "--out", tmp_path)
    path = tmp_path / "toy-table1.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert "1 half-written line" in flat(command("toy-table1", "--out", tmp_path).output)


def test_a_mended_file_is_mended_once(toy, tmp_path):
    command("toy-table1", "--out", tmp_path)
    path = tmp_path / "toy-table1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0\0\0\n", *lines[3:]]))
    assert "half-written" in command("toy-table1", "--out", tmp_path).output
    assert "half-written" not in command("toy-table1", "--out", tmp_path).output


@pytest.mark.parametrize("figures", [{}, {"value": "a"}])
def test_a_cell_without_its_figures_is_said(toy, tmp_path, figures):
    command("toy-table1", "--out", tmp_path)
    with (tmp_path / "toy-table1.jsonl").open("a") as file:
        file.write(json.dumps({"key": "cell 1", "seconds": 1.0, "figures": figures}) + "\n")
    done = command("toy-table1", "--out", tmp_path)
    assert done.exit_code in (0, 2)


def test_results_of_an_unknown_version_are_not_mixed_in(toy, tmp_path):
    path = tmp_path / "toy-table1.jsonl"
    path.write_text('{"table": "toy-table1"}\n{"key": "cell 0", "seconds": 1.0, "figures": {"value": 9.0}}\n')
    assert command("toy-table1", "--seed", 7, "--out", tmp_path).exit_code == 2


def test_fresh_leaves_a_file_of_something_else_alone(toy, tmp_path):
    path = tmp_path / "toy-table1.jsonl"
    path.write_text("my notes\nmore of them\n")
    assert command("toy-table1", "--fresh", "--out", tmp_path).exit_code == 2
    assert path.read_text() == "my notes\nmore of them\n"


# --- data ---


def test_a_damaged_data_file_is_said_before_anything_runs(tmp_path):
    (tmp_path / "sonar.npz").write_bytes(b"PK\x03\x04 and no more")
    done = command("gwl-table2", "--quick", "--data", tmp_path, "--out", tmp_path / "out")
    assert said_in_one_sentence(done)
    assert "sonar.npz is damaged" in flat(done.output)
    assert not (tmp_path / "out").exists()


def sonar(**changes):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(208) < 97, 1, -1)
    arrays = {"X": rng.normal(size=(208, 60)).astype(np.float32), "y": y}
    return {**arrays, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"y": np.where(np.arange(208) < 97, 1, -1)[:, None]},
        {"y": np.ones(208, np.int8)},
        {"label": np.ones((208, 2), np.int8)},
        {"label": np.array(["rock"] * 208)},
    ],
    ids=["y in a column", "one class", "two columns of labels", "labels in words"],
)
def test_arrays_of_another_shape_or_type_are_refused(tmp_path, changes):
    np.savez(tmp_path / "sonar.npz", **sonar(**changes))
    with pytest.raises(ValueError, match=r"sonar\.npz"):
        datasets.load("sonar", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "columns", "extra"),
    [
        ("wine_quality_white", 11, {"quality": np.full(40, np.nan)}),
        ("wine_quality_white", 11, {"quality": np.ones((40, 1))}),
    ],
    ids=["gaps in quality", "quality in a column"],
)
def test_other_arrays_are_looked_at_too(tmp_path, name, columns, extra):
    y = np.where(np.arange(40) < 9, 1, -1)
    np.savez(tmp_path / f"{name}.npz", X=np.random.default_rng(0).normal(size=(40, columns)), y=y, **extra)
    with pytest.raises(ValueError, match=rf"{name}\.npz"):
        datasets.load(name, folder=tmp_path)


# --- estimators ---


def test_networks_look_at_the_ratios_of_weights_only():
    pytest.importorskip("torch")
    from evenmargin.neural import DensityWeightedMLPRegressor

    X = np.random.default_rng(0).normal(size=(300, 3)) * [1e3, 1.0, 1e-3]
    y = X[:, 2] * 1e3
    network = DensityWeightedMLPRegressor((8,), max_epochs=40, learning_rate_init=0.01, random_state=0)
    plain = network.fit(X, y).predict(X)
    np.testing.assert_allclose(network.fit(X, y, np.full(300, 1e14)).predict(X), plain, rtol=1e-3, atol=1e-3)


def test_networks_take_or_refuse_large_weights():
    pytest.importorskip("torch")
    from evenmargin.neural import DensityWeightedMLPRegressor

    X = np.random.default_rng(0).normal(size=(50, 3))
    DensityWeightedMLPRegressor((4,), max_epochs=2, random_state=0).fit(X, X[:, 0], np.full(50, 1e305))


def test_networks_without_scaling_refuse_what_float32_cannot_hold():
    pytest.importorskip("torch")
    from evenmargin.neural import DensityWeightedMLPRegressor

    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(ValueError, match="float32"):
        DensityWeightedMLPRegressor((4,), max_epochs=2, standardize=False).fit(X * 1e45, X[:, 0])


def rows():
    X = np.random.default_rng(0).normal(size=(60, 3))
    return X, (X[:, 0] > 0.5).astype(int)


def test_learned_weights_say_that_there_are_no_folds():
    with pytest.raises(ValueError, match="cv"):
        LearnedWeights(SVC(), cv=[]).fit(*rows())


def test_learned_weights_say_how_to_give_groups():
    with pytest.raises(ValueError, match=r"split\(X, y, groups\)"):
        LearnedWeights(SVC(), cv=GroupKFold(3)).fit(*rows())


def test_learned_weights_take_or_refuse_a_large_spread():
    LearnedWeights(SVC(), spread=1000.0, population=3, rounds=1, random_state=0).fit(*rows())


def test_learned_weights_do_not_start_at_true():
    with pytest.raises(ValueError, match="start"):
        LearnedWeights(SVC(), start=True, population=2, rounds=0).fit(*rows())
