from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.native.points import make_points

from pliant.core.errors import InvalidRequest, NotFound
from pliant.master.journal import notes
from pliant.native.evaluation.state_size import MAX_STATE_BYTES
from pliant.native.model_file.contract import load_model_file
from pliant.native.model_file.description import Description, Evaluation
from pliant.native.model_file.module_files import copy_files
from pliant.native.model_file.saved_models import save_model
from pliant.native.preflight import run_preflight

GOOD = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.layer = nn.Linear(1, 2)
    def forward(self, x):
        return self.layer(x)
def loss(labels, predictions):
    return nn.functional.cross_entropy(predictions, labels)
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
def dataset_fn(dataset, mode, metadata):
    return dataset.map(lambda row: (torch.tensor([float(row["x"])]), int(row["label"])))
def eval_metrics_fn():
    return {"accuracy": "accuracy"}
"""

MISTAKES = {  # what is replaced by what, and what is then said (a line number where it has one)
    "no loss": (r"def loss\(.*\n.*\n", "", r":1: loss\(labels, predictions\) is missing"),
    "no optimizer": (r"def optimizer\(.*\n.*\n", "", r":1: optimizer\(model\) is missing"),
    "no dataset_fn": (
        r"def dataset_fn\(.*\n.*\n",
        "",
        r":1: dataset_fn\(dataset, mode, metadata\) \(or feed\) is missing",
    ),
    "no such class": (r"class Net", "class Other", r":1: class Net not found; classes in it: Other"),
    "loss with one argument": (
        r"def loss\(labels, predictions\)",
        "def loss(predictions)",
        r":10: it is called as loss",
    ),
    "loss the wrong way": (
        r"def loss\(labels, predictions\)",
        "def loss(predictions, labels)",
        r":10: loss must take labels first",
    ),
    "optimizer without a model": (
        r"def optimizer\(model\)",
        "def optimizer()",
        r":12: it is called as optimizer\(model\)",
    ),
    "dataset_fn of two": (r"\(dataset, mode, metadata\)", "(dataset, mode)", r":14: it is called as dataset_fn"),
    "a loss that is a number": (r"def loss.*\n.*\n", "loss = 3\n", r":10: loss is an int; it must be a function"),
    "no optimizer of torch": (
        r"return torch.optim.*",
        "return 'sgd'",
        r":12: optimizer\(model\) must return a torch.optim",
    ),
    "metrics as a list": (
        r'return \{"accuracy".*',
        "return ['accuracy']",
        r":16: eval_metrics_fn\(\) must return a dict",
    ),
    "an unknown metric": (r'"accuracy": "accuracy"', '"a": "akkuracy"', r":16: metric 'a' is 'akkuracy'"),
    "no pairs": (r"return dataset.map.*", "return dataset", r":14: it must yield \(features, label\)"),
    "an unknown column": (r'row\["x"\]', 'row["y"]', r":15: dataset_fn failed on .*data.csv record 0: KeyError: 'y'"),
    "a model that cannot be made": (r"nn.Linear\(1, 2\)", "nn.Linear(1, zwei)", r":7: Net failed: NameError"),
    "a failure in Python's own frozen modules": (
        r"return self.layer\(x\)",
        "import os; return self.layer(x) * int(os.environ['NOT_SET_ANYWHERE'])",
        r":9: Net failed: KeyError",
    ),
    "a model that does not fit": (r"nn.Linear\(1, 2\)", "nn.Linear(5, 2)", r":9: Net failed: RuntimeError"),
    "no torch module": (
        r"class Net\(nn.Module\)",
        "class Net(object)",
        r":4: Net returned a .*, which is not a torch module",
    ),
    "a loss of constants": (r"return nn.functional.*", "return torch.tensor(1.0)", r":10: the loss does not depend on"),
    "a model that gives nothing": (
        r"return self.layer\(x\)",
        "pass",
        r":4: the value returned by Net: expected tensors",
    ),
    "a metric of one argument": (r'"accuracy": "accuracy"', '"a": lambda p: 1', r":16: metric 'a' failed: TypeError"),
    "a metric that is a word": (
        r'"accuracy": "accuracy"',
        '"a": lambda y, p: "x"',
        r":16: metric 'a': it must return a num",
    ),
    "a callback that is none": (r"\Z", "def callbacks():\n    return [3]\n", r":18: an int has none of on_train_begin"),
    "a callback of one argument": (
        r"\Z",
        "class C:\n    def on_evaluation(self, version): ...\ndef callbacks():\n    return [C()]\n",
        r":19: it is called as on_evaluation\(version, metrics\)",
    ),
    "early stopping by nothing": (
        r"\Z",
        "from pliant.native import EarlyStopping\ndef callbacks():\n    return [EarlyStopping('f1')]\n",
        r":19: EarlyStopping monitors 'f1'",
    ),
    "a rate that is a word": (
        r"\Z",
        "def learning_rate_schedule(step):\n    return 'x'\n",
        r":18: it must return the rate as a number",
    ),
    "a reader that is none": (
        r"\Z",
        "def custom_data_reader(source):\n    return 3\n",
        r":18: int is not a data reader",
    ),
    "a reader with less than nothing": (
        r"\Z",
        "class R:\n    def create_shards(self): return {'a': 3, 'b': -1}\n    def read_records(self, task): ...\n"
        "def custom_data_reader(source):\n    return R()\n",
        r"net.py:21: create_shards returned -1 records for 'b'",
    ),
    "a reader that fails": (
        r"\Z",
        "def custom_data_reader(source):\n    return open('/nowhere')\n",
        r":19: custom_data_reader failed: FileNotFoundError",
    ),
    "a processor of predictions alone": (
        r"\Z",
        "class PredictionOutputsProcessor:\n    def process(self, predictions): ...\n",
        r":19: it is called as process\(predictions, worker_id\)",
    ),
    "a program without its guard": (r"\Z", "raise SystemExit(3)\n", r":18: SystemExit: 3"),
    "batches": (
        r'row\["label"\]\)\)\)',
        'row["label"]))).batch(4)',
        r":14: it creates batches, but Pliant does the batching",
    ),
    "several features for one argument": (
        r'torch.tensor\(\[float\(row\["x"\]\)\]\)',
        '(torch.tensor([float(row["x"])]), 1)',
        r":4: its forward is called with the 2 features of a tuple",
    ),
    "no labels": (r'int\(row\["label"\]\)', "None", r":14: it yields no labels in mode eval"),
    "texts": (r'torch.tensor\(\[float\(row\["x"\]\)\]\)', 'row["x"]', r":14: features are strings"),
    "a rate below zero": (
        r"\Z",
        "def learning_rate_schedule(step):\n    return -1\n",
        r":18: the learning rate of update 0 is -1.0",
    ),
    "an optimizer of closures": (r"SGD\(model.parameters\(\), lr=0.1\)", "LBFGS(model.parameters())", r":12: LBFGS"),
    "not Python": (r"def loss", "dev loss", r":10: not valid Python"),
    "an import that fails": (r"import torch\n", "import torch, nowhere_to_be_found\n", r":2: ModuleNotFoundError"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_points(tmp_path / "data.csv", 20)


def checked(file: Path, data: Path, model_class: str = "Net", output: Path | str = "") -> None:
    given = [str(data)]
    run_preflight(
        Description(model=file.name, model_class=model_class, data=given, eval_data=given, output=str(output)), file
    )


def test_a_model_file_that_keeps_the_contract_is_taken(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(GOOD)
    checked(file, data)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_model_file_is_named_with_its_line(
    tmp_path: Path, data: Path, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pattern, by, told = MISTAKES[mistake]
    text, count = re.subn(pattern, lambda _: by, GOOD)
    assert count == 1
    file = tmp_path / "net.py"
    file.write_text(text)
    with pytest.raises(InvalidRequest) as error:
        checked(file, data)
    assert re.search(told, error.value.message), error.value.message
    assert "net.py" in error.value.message or "data.csv" in error.value.message


PAIR_OF_FEATURES = {  # the model's forward, and what is said of the pairs that its dataset_fn yields
    "two arguments": ("def forward(self, x, y):", r"missing a required argument: 'y'"),
    "one argument": ("def forward(self, x):\n        x, y, _ = x", r"ValueError: too many values to unpack"),
}


@pytest.mark.parametrize("case", PAIR_OF_FEATURES)
def test_two_features_that_look_like_features_and_a_label_are_told_what_was_assumed_and_how_to_yield_them(
    tmp_path: Path, data: Path, case: str
) -> None:
    forward, told = PAIR_OF_FEATURES[case]
    file, saved = tmp_path / "net.py", tmp_path / "trained"
    file.write_text(GOOD)
    save_model(saved, load_model_file(file, "Net").make_model().state_dict(), {})
    pair = '(torch.tensor([float(row["x"])]), torch.tensor([2.0]))'
    text = re.sub(r"\(torch.tensor.*", f"{pair})", GOOD).replace("def forward(self, x):", forward)
    file.write_text(text)
    about = Description(
        task="predict", model="net.py", model_class="Net", data=[str(data)], trained=str(saved), output="p.csv"
    )
    with pytest.raises(InvalidRequest) as error:
        run_preflight(about, file)
    assert "in mode predict a pair is read as (features, label)" in error.value.message
    assert re.search(told, error.value.message), error.value.message
    assert "yield ((a, b), None)" in error.value.hint
    file.write_text(text.replace(pair, f"({pair}, None)").replace("x, y, _ = x", "pass"))
    if case == "two arguments":
        run_preflight(about, file)


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("\n")
    with pytest.raises(InvalidRequest) as error:
        load_model_file(file)
    assert all(name in error.value.message for name in ("custom_model()", "loss(", "optimizer(", "dataset_fn("))


def test_feed_is_another_name_of_dataset_fn(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(GOOD.replace("def dataset_fn", "def feed"))
    checked(file, data)


def test_what_a_model_file_may_have_besides(tmp_path: Path, data: Path) -> None:
    more = """
class Rows:
    def __init__(self, path): self.lines = open(path).read().splitlines()[1:]
    def __len__(self): return len(self.lines)
    def __getitem__(self, i): return dict(zip(("id", "x", "label"), self.lines[i].split(",")))
def custom_data_reader(source): return Rows(source)
def custom_model(): return Net()
def learning_rate_schedule(optimizer): return torch.optim.lr_scheduler.StepLR(optimizer, 10)
class PredictionOutputsProcessor:
    def process(self, predictions, worker_id, ids): ...
"""
    file = tmp_path / "net.py"
    file.write_text(GOOD + more)
    checked(file, data, model_class="")


def test_layers_that_get_their_shape_from_the_first_batch_are_built_before_anything_is_made_of_the_model(
    tmp_path: Path, data: Path
) -> None:
    file = tmp_path / "net.py"
    file.write_text(GOOD.replace("nn.Linear(1, 2)", "nn.LazyLinear(2)"))
    for strategy in ("local", "allreduce", "ps-sync"):
        run_preflight(Description(model="net.py", model_class="Net", data=[str(data)], strategy=strategy), file)
    file.write_text(file.read_text().replace("return dataset.map(", "return dataset.filter(lambda row: False).map("))
    with pytest.raises(InvalidRequest, match=":4: Net has lazy parameters, which get their shape from the first batch"):
        checked(file, data)


def test_a_feature_that_a_table_on_servers_is_to_have_its_ids_from_is_looked_for_before_the_launch(
    tmp_path: Path, data: Path
) -> None:
    file = tmp_path / "net.py"
    table = "from pliant.torch import Embedding\n        self.table = Embedding('t', 2, feature='uid')\n        self.layer ="
    file.write_text(GOOD.replace("self.layer =", table))
    about = Description(model="net.py", model_class="Net", data=[str(data)], strategy="ps-sync")
    with pytest.raises(InvalidRequest, match="table 't' takes its ids from the feature 'uid'"):
        run_preflight(about, file)
    save_model(tmp_path / "trained", load_model_file(file, "Net").make_model().state_dict(), {})
    with pytest.raises(InvalidRequest, match="--trained cannot be combined with tables"):
        run_preflight(about.model_copy(update={"trained": str(tmp_path / "trained")}), file)


def test_a_model_that_cannot_train_on_the_one_record_that_is_left_over_is_refused(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(GOOD.replace("nn.Linear(1, 2)", "nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))"))
    about = Description(model="net.py", model_class="Net", data=[str(data)], batch_size=4)
    run_preflight(about, file)  # of 20 records none is left over
    for changes in (
        {"batch_size": 19},
        {"batch_size": 38, "virtual_workers": 2},
        {"batch_size": 19, "strategy": "ps-async"},
    ):
        with pytest.raises(
            InvalidRequest, match=r"net.py:9: the last batch of an epoch has one record, .* more than 1 value"
        ):
            run_preflight(about.model_copy(update=changes), file)
    run_preflight(about.model_copy(update={"batch_size": 19, "max_steps": 1}), file)


def test_a_metric_that_is_given_more_than_a_shard_may_have_is_refused_before_the_launch(
    tmp_path: Path, data: Path
) -> None:
    assert MAX_STATE_BYTES == notes.MAX_NOTE_BYTES, "what workers send and what the master takes"
    file = tmp_path / "net.py"
    wide = "torch.cat([self.layer(x), torch.randn(len(x), 200_000)], 1)"
    text = GOOD.replace("self.layer(x)\n", wide + "\n").replace('"accuracy": "accuracy"', '"mine": lambda y, p: 1.0')
    file.write_text(text)
    about = Description(model="net.py", model_class="Net", data=[str(data)], eval_data=[str(data)])
    with pytest.raises(
        InvalidRequest, match=r"the metric states of 20 records take 1[0-9],[0-9]{3},[0-9]{3} bytes"
    ) as error:
        run_preflight(about, file)
    assert "--eval-shard-size 8" in error.value.hint
    run_preflight(about.model_copy(update={"evaluation": Evaluation(shard_size=8)}), file)
    file.write_text(text.replace("lambda y, p: 1.0", "'accuracy'"))
    run_preflight(about, file)  # of which only sums are kept


def test_an_output_that_cannot_be_made_is_refused(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(GOOD)
    for output, told in (
        (data, "is not a directory"),
        (data / "below", r"cannot be written: .*data\.csv: Not a directory"),
        ("/proc/out", "cannot be written: /proc: "),  # where even root cannot
        ("s3://b/x", "is a URL"),
    ):
        with pytest.raises(InvalidRequest, match=told):
            checked(file, data, output=output)


def test_a_file_that_is_not_there_and_data_that_is_not_there_are_said(tmp_path: Path, data: Path) -> None:
    with pytest.raises(NotFound, match=r"model file .* not found"):
        checked(tmp_path / "nowhere.py", data)
    file = tmp_path / "net.py"
    file.write_text(GOOD)
    with pytest.raises(InvalidRequest, match="--data"):
        checked(file, tmp_path / "nowhere.csv")


def test_modules_beside_the_file_that_it_imports_are_copied_with_it(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "layers").mkdir(parents=True)
    (here / "net.py").write_text("import os, helpers\nfrom layers.dense import D\n")
    (here / "helpers.py").write_text("import more\n")
    (here / "more.py").write_text("")
    (here / "unrelated.py").write_text("")
    (here / "layers" / "__init__.py").write_text("")
    (here / "layers" / "dense.py").write_text("D = 1\n")
    copied = copy_files(here / "net.py", tmp_path / "there")
    expected = {"net.py", "helpers.py", "more.py", "layers/__init__.py", "layers/dense.py"}
    assert {str(name) for name in copied} == expected
    assert {str(p.relative_to(tmp_path / "there")) for p in (tmp_path / "there").rglob("*.py")} == expected
